import { isDeepStrictEqual } from "node:util";
import type { IpFamily } from "../base/ip.ts";
import type { RuleSet } from "../state/rule.ts";
import type { RulesInput } from "./rule-parts.ts";
import { planRules } from "./rules.ts";

interface Planned {
  readonly input: RulesInput;
  readonly rules: RuleSet;
}

/** Keeps the last planned rules of each family, and returns the same object as long as the input is equal. */
export class RulesMemory {
  readonly #planned = new Map<IpFamily, Planned>();

  /** Like {@link planRules}. */
  plan(input: RulesInput): RuleSet {
    const last = this.#planned.get(input.family);
    if (last !== undefined && isDeepStrictEqual(last.input, input)) return last.rules;
    const rules = planRules(input);
    this.#planned.set(input.family, { input, rules });
    return rules;
  }
}

/** Which rules keep packets out, told by their texts. Pure. */
import type { Rule } from "../../state/rule.ts";
import type { PlannedRuleChange } from "./diff-rules.ts";

const restricting = /(?:^| )-j (?:DROP|REJECT|KUBE-SOURCE-RANGES-FIREWALL)(?: |$)/;

/** Whether everything that the planned rules keep out is kept out by these, too. */
export function isAsStrict(texts: readonly string[], planned: readonly string[]): boolean {
  const [present, wanted] = [new Set(texts), new Set(planned)];
  return (
    planned.every((text) => present.has(text) || !restricting.test(text)) &&
    texts.every((text) => wanted.has(text) || restricting.test(text))
  );
}

/** A write of a chain as two: one that loosens nothing, and one for when nothing needs the restriction any more. */
export interface TwoSteps {
  readonly now: readonly PlannedRuleChange[];
  readonly later: readonly PlannedRuleChange[];
}

/**
 * Splits the write of a chain that loses restricting rules. They stay behind the planned ones until what they restrict is
 * gone. `parse` gives undefined for a rule that is not ours; it is not kept.
 */
export function inTwoSteps(
  change: PlannedRuleChange,
  render: (rule: Rule) => string,
  parse: (text: string) => Rule | undefined,
): TwoSteps {
  if (change.kind !== "chain-write" || change.chain.table !== "filter") {
    return { now: [change], later: [] };
  }
  const { before = [], chain } = change;
  const after = new Set(chain.rules.map(render));
  const lost = before
    .filter((text) => restricting.test(text) && !after.has(text))
    .flatMap((text) => parse(text) ?? []);
  if (lost.length === 0) return { now: [change], later: [] };
  const rules = [...chain.rules, ...lost];
  const texts = rules.map(render);
  const later = [{ ...change, before: texts, reason: "loosens" } as const];
  const isThere = texts.length === before.length && texts.every((text) => before.includes(text));
  return { now: isThere ? [] : [{ ...change, chain: { ...chain, rules } }], later };
}

import { chainKey, type TableName, type Target } from "../../state/rule.ts";
import { type FoundEntry, matchRule, type Surroundings } from "./match-rule.ts";
import type { Passing } from "./packet.ts";

export type Hook = "PREROUTING" | "INPUT" | "FORWARD" | "OUTPUT" | "POSTROUTING";

/** A rule that matched. */
export interface Step {
  readonly hook: Hook;
  readonly table: TableName;
  readonly chain: string;
  /** Behind `-A CHAIN `. */
  readonly rule: string;
  /** The set entries that it found. */
  readonly entries: readonly FoundEntry[];
}

/** A rewritten destination. */
export type Translation = Target & { readonly kind: "translate" | "redirect" };

/** Whether a rule that matches by chance does so now. */
export type Lot = () => boolean;

/** What the rules of one table do with a packet at one hook. */
export interface Traversal {
  readonly verdict: "pass" | "dropped" | "refused";
  /** The last rule gives the packet another destination. */
  readonly translation?: Translation;
  readonly isMasqueraded: boolean;
  readonly mark: number;
  readonly steps: readonly Step[];
}

/** Chains that lead to each other are a third party's; the kernel allows no loop. */
const maxDepth = 16;

interface Walk {
  readonly hook: Hook;
  readonly table: TableName;
  readonly surroundings: Surroundings;
  readonly passing: Passing;
  readonly lot: Lot;
  mark: number;
  isMasqueraded: boolean;
  translation?: Translation;
  readonly steps: Step[];
}

/**
 * Follows a packet through the chains of a table, from the built-in one. Rules that cannot be read, and chains that are not
 * in the picture, are passed over. Pure.
 */
export function traverse(
  hook: Hook,
  table: TableName,
  passing: Passing,
  surroundings: Surroundings,
  lot: Lot = never,
): Traversal {
  const walk: Walk = {
    ...{ hook, table, passing, surroundings, lot },
    mark: passing.mark,
    isMasqueraded: false,
    steps: [],
  };
  const end = walkChain(hook, walk, 0);
  const verdict = end === "dropped" || end === "refused" ? end : "pass";
  const { isMasqueraded, mark, steps, translation } = walk;
  return {
    ...{ verdict, isMasqueraded, mark, steps },
    ...(translation === undefined ? {} : { translation }),
  };
}

/** Beside IPVS no rule of ours asks. */
function never(): boolean {
  return false;
}

/** `return`: and the chain before goes on behind the jump. */
type End = "accept" | "dropped" | "refused" | "return";

function walkChain(chain: string, walk: Walk, depth: number): End {
  const { hook, table, surroundings, lot } = walk;
  const rules = surroundings.picture.chains.get(chainKey(table, chain)) ?? [];
  const hasInLink = hook === "PREROUTING" || hook === "INPUT" || hook === "FORWARD";
  for (const { text, rule } of rules) {
    if (rule === undefined || depth > maxDepth) continue;
    const passing = { ...walk.passing, mark: walk.mark };
    const entries = matchRule(rule, { passing, hasInLink, lot }, surroundings);
    if (entries === undefined) continue;
    walk.steps.push({ hook, table, chain, rule: text, entries });
    const end = follow(rule.target, walk, depth);
    if (end !== undefined) return end;
  }
  return "return";
}

/** Undefined: the next rule is looked at. */
function follow(target: Target, walk: Walk, depth: number): End | undefined {
  switch (target.kind) {
    case "accept":
    case "return":
      return target.kind;
    case "drop":
      return "dropped";
    case "reject":
      return "refused";
    case "none":
      return undefined;
    case "translate":
    case "redirect":
      walk.translation = target;
      return "accept";
    case "masquerade":
      walk.isMasqueraded = true;
      return "accept";
    case "xmark":
      walk.mark = ((walk.mark & ~target.mask) ^ target.value) >>> 0;
      return undefined;
    case "jump": {
      const end = walkChain(target.chain, walk, depth + 1);
      return end === "return" ? undefined : end;
    }
  }
}

/** Our jumps, in groups and as texts. Pure. */
import { chainKey, type Jump, type Rule, type RuleSet } from "../../state/rule.ts";

/** Formats a rule like `iptables-save`, without `-A CHAIN `. */
export type RenderRule = (rule: Rule) => string;

/** The last inserted jump comes first in the chain. */
export function wantedOrder(group: readonly Jump[], render: RenderRule): readonly string[] {
  return group.map((jump) => render(jump.rule)).reverse();
}

/** Groups jumps by the chain that contains them; each group is in insertion order. */
export function jumpGroups(planned: RuleSet): readonly (readonly Jump[])[] {
  return [...Map.groupBy(planned.jumps, (jump) => chainKey(jump.table, jump.from)).values()];
}

export function groupKey(group: readonly Jump[]): string {
  const [first] = group;
  return first === undefined ? "" : chainKey(first.table, first.from);
}

export function jumpText(jump: Jump, render: RenderRule): string {
  return `${chainKey(jump.table, jump.from)} ${render(jump.rule)}`;
}

/** Cheap looks between syncs: is what we wrote still there? Values in, names of what is lost out. Pure. */
import type { ObservedIpSet } from "../state/ip-set.ts";
import type { RuleSet } from "../state/rule.ts";
import { diffRules, type RenderRule } from "./diff-rules.ts";
import type { KnownRules, KnownState } from "./known-state.ts";

/** Names of sets that somebody took away, emptied, filled or made anew, by their headers alone. */
export function lostSets(
  observed: readonly ObservedIpSet[],
  { sets, setEntries }: KnownState,
): readonly string[] {
  const byName = new Map(observed.map((set) => [set.name, set]));
  return [...setEntries]
    .filter(([name, entries]) => {
      const header = byName.get(name);
      const known = sets.get(name);
      if (header === undefined || header.elementCount !== entries.size) return true;
      return header.type !== known?.type || header.maxElements !== known.maxElements;
    })
    .map(([name]) => name);
}

/** Chains and jumps that do not stand as planned, as `table chain`. */
export function lostRules(
  planned: RuleSet,
  observed: KnownRules,
  render: RenderRule,
): readonly string[] {
  const places = diffRules(planned, observed, render).map((change) => {
    if (change.kind === "write-chain") return `${change.chain.table} ${change.chain.name}`;
    if (change.kind === "remove-chain") return `${change.table} ${change.name}`;
    return `${change.jump.table} ${change.jump.from}`;
  });
  return [...new Set(places)];
}

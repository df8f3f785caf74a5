/** Cheap looks between syncs: is what we wrote still there? Values in, names of what is lost out. Pure. */
import { type ObservedIpSet, sameIpSet } from "../state/ip-set.ts";
import type { KnownState } from "./known-state.ts";

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
      return known === undefined || !sameIpSet(known, header);
    })
    .map(([name]) => name);
}

/** Reads our sets with their entries into the cache. */
import type { IpSets } from "../../kernel/kernel.ts";
import { capacityFor, temporaryNameOf } from "../../plan/sets.ts";
import { type IpSet, isSwappable, type ObservedIpSet, sameIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import { ourSets } from "../kinds/sets.ts";
import type { CachedState } from "./cached-state.ts";
import { compareMembers } from "./compare.ts";
import type { Differences } from "./difference.ts";

const temporaryNames: ReadonlySet<string> = new Set([...ourSets.keys()].map(temporaryNameOf));

/** Reads the headers and entries of all our sets. Rejects if the kernel cannot be read. */
export async function readAllSets(
  ipSets: IpSets,
  cached: CachedState,
  differences: Differences,
): Promise<void> {
  await checkSetHeaders(ipSets, cached, differences, new Set(ourSets.keys()));
}

/** Entries of all our sets by name. Rejects if the kernel cannot be read. */
export async function readOtherSets(
  otherSets: IpSets | undefined,
): Promise<CachedState["otherEntries"]> {
  if (otherSets === undefined) return new Map();
  return readEachSet(otherSets, await readHeaders(otherSets));
}

async function readEachSet(
  ipSets: IpSets,
  { sets }: Headers,
  names: Iterable<string> = ourSets.keys(),
): Promise<ReadonlyMap<string, Set<SetEntry>>> {
  const entries = new Map<string, Set<SetEntry>>();
  for (const name of names) {
    const header = sets.get(name);
    const set = header && usable(header);
    if (header !== undefined && set !== undefined)
      entries.set(name, await readEntries(ipSets, set, header));
  }
  return entries;
}

/**
 * Compares our sets' headers with the cache, and reads the entries of `suspects` and of sets whose count or parameters
 * differ. Returns the names of these sets.
 */
export async function checkSetHeaders(
  ipSets: IpSets,
  cached: CachedState,
  differences: Differences,
  suspects: ReadonlySet<string> = new Set(),
): Promise<readonly string[]> {
  const headers = await readHeaders(ipSets);
  const changed = [...ourSets.keys()].filter((name) => {
    const [before, after] = [cached.sets.get(name), headers.sets.get(name)];
    if (suspects.has(name)) return true;
    if (before === undefined || after === undefined) return before !== after;
    const count = cached.setEntries.get(name)?.size;
    return !sameIpSet(before, after) || (count !== undefined && count !== after.elementCount);
  });
  // Read everything before the cache changes. Otherwise, a failed read would hide the remaining differences.
  const entries = await readEachSet(ipSets, headers, changed);
  noteHeaders(cached, headers, differences);
  for (const name of changed) noteEntries(cached, name, entries.get(name), differences);
  return changed;
}

/** Reads the entries of one set whose header is cached. Returns the number of entries. */
export async function readOneSet(
  ipSets: IpSets,
  name: string,
  cached: CachedState,
  differences: Differences,
): Promise<number> {
  const header = cached.sets.get(name);
  const set = header === undefined ? undefined : usable(header);
  const found =
    set === undefined || header === undefined ? undefined : await readEntries(ipSets, set, header);
  noteEntries(cached, name, found, differences);
  return found?.size ?? 0;
}

/** Names of the sets whose capacity is larger than kube-proxy would choose for their number of entries. */
export function oversizedSets({ sets, setEntries }: CachedState): readonly string[] {
  return [...setEntries]
    .filter(([name, { size }]) => (sets.get(name)?.maxElements ?? 0) > capacityFor(size))
    .map(([name]) => name);
}

interface Headers {
  readonly sets: ReadonlyMap<string, ObservedIpSet>;
  readonly temporary: ReadonlySet<string>;
}

async function readHeaders(ipSets: IpSets): Promise<Headers> {
  const all = await ipSets.listSets();
  return {
    sets: new Map(all.filter(({ name }) => ourSets.has(name)).map((set) => [set.name, set])),
    temporary: new Set(all.map(({ name }) => name).filter((name) => temporaryNames.has(name))),
  };
}

function noteHeaders(cached: CachedState, headers: Headers, differences: Differences): void {
  for (const name of ourSets.keys()) {
    const [before, after] = [cached.sets.get(name), headers.sets.get(name)];
    const isSame = before !== undefined && after !== undefined && sameIpSet(before, after);
    if (!isSame && before !== after) differences.sets.set(name, { before, after });
  }
  cached.sets = new Map(headers.sets);
  cached.temporarySets = new Set(headers.temporary);
}

/** `found` is undefined if the set does not exist or cannot contain our entries. */
function noteEntries(
  cached: CachedState,
  name: string,
  found: Set<SetEntry> | undefined,
  differences: Differences,
): void {
  const nothing = new Set<SetEntry>();
  compareMembers(cached.setEntries.get(name) ?? nothing, found ?? nothing, (entry, wasThere) =>
    differences.noteEntry(name, entry, wasThere),
  );
  if (found === undefined) cached.setEntries.delete(name);
  else cached.setEntries.set(name, found);
}

/** Our set definition for this existing set. Undefined if its type or family is incompatible. */
function usable(header: ObservedIpSet): IpSet | undefined {
  const set = ourSets.get(header.name);
  return set !== undefined && isSwappable(set, header) ? set : undefined;
}

/** Reads the entries of a set unless it is empty. The element count of bitmap sets is unreliable. */
async function readEntries(
  ipSets: IpSets,
  set: IpSet,
  { elementCount, type }: ObservedIpSet,
): Promise<Set<SetEntry>> {
  const isEmpty = elementCount === 0 && type !== "bitmap:port";
  return new Set(isEmpty ? [] : await ipSets.listEntries(set));
}

/** Works out what a sync has to change. Pure; the generators yield between values, of which there may be very many. */
import { type IpAddress, ipFamilies } from "../base/ip.ts";
import type { AddressChange, SetChange } from "../kernel/kernel.ts";
import { setsFor } from "../plan/sets.ts";
import type { IpSet } from "../state/ip-set.ts";
import type { SetEntry } from "../state/set-entry.ts";
import { diffAddress, diffEntry, diffVirtualServer, idOf, type VirtualServerDiff } from "./diff.ts";
import type { KnownState } from "./known-state.ts";
import { isExcluded, mayRemove, type OwnershipFacts } from "./ownership.ts";
import type { SyncGoal, Work } from "./sync-context.ts";

const allSets: readonly IpSet[] = ipFamilies.flatMap(setsFor);

/** What the changes of a sync depend on, besides what is wanted and what is there. */
export interface WorkFacts extends OwnershipFacts {
  /** Keys that Services claim and others have: left out of the goal, and not to be removed. */
  readonly contested: ReadonlySet<string>;
}

export function* planWork(
  goal: SyncGoal,
  known: KnownState,
  facts: WorkFacts,
): Generator<void, Work> {
  const entries = { added: [] as SetChange[], removed: [] as SetChange[] };
  for (const set of allSets) {
    for (const entry of entriesOf(set, goal, known)) {
      const change = diffEntry(set, entry, goal.desired, known);
      if (change !== undefined) entries[change.kind === "add" ? "added" : "removed"].push(change);
      yield;
    }
  }
  const addresses = { added: [] as AddressChange[], removed: [] as AddressChange[] };
  for (const address of addressesOf(goal, known)) {
    const change = diffAddress(address, goal.desired, known);
    if (change !== undefined) addresses[change.kind === "add" ? "added" : "removed"].push(change);
    yield;
  }
  return {
    ...(yield* serverDiffs(goal, known, facts)),
    addedEntries: entries.added,
    removedEntries: entries.removed,
    addedAddresses: addresses.added,
    removedAddresses: addresses.removed,
    sysctls: (goal.sysctls ?? []).filter(
      ({ path, value }) => known.sysctls.has(path) && known.sysctls.get(path) !== value,
    ),
  };
}

function* serverDiffs(
  goal: SyncGoal,
  known: KnownState,
  facts: WorkFacts,
): Generator<void, Pick<Work, "servers" | "foreignServers">> {
  const servers: VirtualServerDiff[] = [];
  const foreignServers: string[] = [];
  const isNewToBe = isCareful(goal, facts);
  for (const key of serverKeys(goal, known)) {
    yield;
    const diff = diffVirtualServer(
      key,
      goal.desired.virtualServer(key),
      known.virtualServers.get(key),
      isNewToBe,
    );
    if (diff === undefined) continue;
    if (diff.isUnwanted && !isRemovable(key, goal, known, facts)) foreignServers.push(key);
    else servers.push(diff);
  }
  return { servers, foreignServers };
}

/** A key that was dirty had been desired, so it is ours; in a full pass the kernel must say so. */
function isRemovable(key: string, goal: SyncGoal, known: KnownState, facts: WorkFacts): boolean {
  const server = known.virtualServers.get(key);
  if (server === undefined || facts.contested.has(key)) return false;
  if (goal.dirty === "all") return mayRemove(key, known, facts);
  return !isExcluded(idOf(server), facts.policy);
}

/** Others may have made a virtual server since everything was observed: it is not to be overwritten. */
function isCareful(goal: SyncGoal, { policy }: WorkFacts): boolean {
  return goal.dirty !== "all" && policy.foreignVirtualServers === "keep";
}

function serverKeys({ dirty, desired }: SyncGoal, known: KnownState): Iterable<string> {
  if (dirty !== "all") return dirty.virtualServers;
  const isWanted = (key: string): boolean => desired.virtualServer(key) !== undefined;
  return union(desired.virtualServerKeys(), known.virtualServers.keys(), isWanted);
}

function entriesOf(
  set: IpSet,
  { dirty, desired }: SyncGoal,
  known: KnownState,
): Iterable<SetEntry> {
  if (dirty !== "all") return dirty.setEntries.get(set.name) ?? [];
  const isWanted = (entry: SetEntry): boolean => desired.hasEntry(set.name, entry);
  return union(desired.entries(set.name), known.setEntries.get(set.name) ?? [], isWanted);
}

function addressesOf({ dirty, desired }: SyncGoal, known: KnownState): Iterable<IpAddress> {
  if (dirty !== "all") return dirty.addresses;
  return union(desired.addresses(), known.addresses, (address) => desired.hasAddress(address));
}

/** All values of `first`, then those of `second` that are not in the first: no copy of either is made. */
function* union<T>(
  first: Iterable<T>,
  second: Iterable<T>,
  isInFirst: (value: T) => boolean,
): Generator<T> {
  yield* first;
  for (const value of second) if (!isInFirst(value)) yield value;
}

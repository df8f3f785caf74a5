/** Works out what a sync has to change. Pure. */
import { type IpAddress, ipFamilies } from "../base/ip.ts";
import type { IpvsChange } from "../kernel/kernel.ts";
import { setsFor } from "../plan/sets.ts";
import type { IpSet } from "../state/ip-set.ts";
import type { SetEntry } from "../state/set-entry.ts";
import {
  diffAddresses,
  diffEntries,
  diffVirtualServer,
  idOf,
  type VirtualServerDiff,
} from "./diff.ts";
import type { KnownState } from "./known-state.ts";
import { isExcluded, mayRemove, type OwnershipFacts } from "./ownership.ts";
import type { SyncGoal, Work } from "./sync-context.ts";

const allSets: readonly IpSet[] = ipFamilies.flatMap(setsFor);

/** What the changes of a sync depend on, besides what is wanted and what is there. */
export interface WorkFacts extends OwnershipFacts {
  /** Keys that Services claim and others have: left out of the goal, and not to be removed. */
  readonly contested: ReadonlySet<string>;
}

export function planWork(goal: SyncGoal, known: KnownState, facts: WorkFacts): Work {
  const entries = allSets.flatMap((set) => entryChanges(set, goal, known));
  const addresses = diffAddresses(addressesOf(goal, known), goal.desired, known);
  return {
    ...serverDiffs(goal, known, facts),
    addedEntries: entries.filter(({ kind }) => kind === "add"),
    removedEntries: entries.filter(({ kind }) => kind === "remove"),
    addedAddresses: addresses.filter(({ kind }) => kind === "add"),
    removedAddresses: addresses.filter(({ kind }) => kind === "remove"),
    sysctls: (goal.sysctls ?? []).filter(
      ({ path, value }) => known.sysctls.has(path) && known.sysctls.get(path) !== value,
    ),
  };
}

function serverDiffs(
  goal: SyncGoal,
  known: KnownState,
  facts: WorkFacts,
): Pick<Work, "servers" | "foreignServers"> {
  const servers: VirtualServerDiff[] = [];
  const foreignServers: string[] = [];
  for (const key of serverKeys(goal, known)) {
    const diff = diffVirtualServer(
      key,
      goal.desired.virtualServer(key),
      known.virtualServers.get(key),
    );
    if (diff === undefined) continue;
    if (diff.isUnwanted && !isRemovable(key, goal, known, facts)) foreignServers.push(key);
    else
      servers.push(isCareful(goal, facts) ? { ...diff, changes: diff.changes.map(asNew) } : diff);
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

function asNew(change: IpvsChange): IpvsChange {
  return change.kind === "create-virtual-server" ? { ...change, mustBeNew: true } : change;
}

function serverKeys(goal: SyncGoal, known: KnownState): Iterable<string> {
  if (goal.dirty !== "all") return goal.dirty.virtualServers;
  return new Set([...goal.desired.virtualServerKeys(), ...known.virtualServers.keys()]);
}

function entryChanges(
  set: IpSet,
  goal: SyncGoal,
  known: KnownState,
): ReturnType<typeof diffEntries> {
  return diffEntries(set, entriesOf(set, goal, known), goal.desired, known);
}

function entriesOf(set: IpSet, goal: SyncGoal, known: KnownState): Iterable<SetEntry> {
  if (goal.dirty !== "all") return goal.dirty.setEntries.get(set.name) ?? [];
  return new Set([...goal.desired.entries(set.name), ...(known.setEntries.get(set.name) ?? [])]);
}

function addressesOf(goal: SyncGoal, known: KnownState): Iterable<IpAddress> {
  if (goal.dirty !== "all") return goal.dirty.addresses;
  return new Set([...goal.desired.addresses(), ...known.addresses]);
}

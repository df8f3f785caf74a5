/** Works out what a sync has to change. Pure. */
import { cidrContains, type IpAddress, ipFamilies } from "../base/ip.ts";
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
import { mayRemove, type OwnershipPolicy } from "./ownership.ts";
import type { SyncGoal, Work } from "./sync-context.ts";

const allSets: readonly IpSet[] = ipFamilies.flatMap(setsFor);

export function planWork(goal: SyncGoal, known: KnownState, policy: OwnershipPolicy): Work {
  const entries = allSets.flatMap((set) => entryChanges(set, goal, known));
  const addresses = diffAddresses(addressesOf(goal, known), goal.desired, known);
  return {
    ...serverDiffs(goal, known, policy),
    addedEntries: entries.filter(({ kind }) => kind === "add"),
    removedEntries: entries.filter(({ kind }) => kind === "remove"),
    addedAddresses: addresses.filter(({ kind }) => kind === "add"),
    removedAddresses: addresses.filter(({ kind }) => kind === "remove"),
  };
}

function serverDiffs(
  goal: SyncGoal,
  known: KnownState,
  policy: OwnershipPolicy,
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
    if (diff.isUnwanted && !isRemovable(key, goal, known, policy)) foreignServers.push(key);
    else servers.push(diff);
  }
  return { servers, foreignServers };
}

/** A key that was dirty had been desired, so it is ours; in a full pass the kernel must say so. */
function isRemovable(
  key: string,
  goal: SyncGoal,
  known: KnownState,
  policy: OwnershipPolicy,
): boolean {
  const server = known.virtualServers.get(key);
  if (server === undefined) return false;
  const id = idOf(server);
  if (goal.dirty === "all") return mayRemove(id, known, goal.nodeAddresses, policy);
  return !policy.excludeCidrs.some((cidr) => cidrContains(cidr, id.address));
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

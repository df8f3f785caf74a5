/** What must change so that one virtual server becomes what is desired. Pure. */
import type { PlannedVirtualServer } from "../../plan/service-port-plan.ts";
import {
  type RealServer,
  type RealServerId,
  realServerKey,
  sameRealServer,
} from "../../state/real-server.ts";
import {
  sameVirtualServer,
  type VirtualServer,
  type VirtualServerId,
} from "../../state/virtual-server.ts";
import type { Change, ChangeOf } from "../change.ts";
import type { DrainStart } from "../change-plan.ts";
import { type DrainPolicy, type DrainsView, drainPolicyOf, drains } from "../drain/drains.ts";
import type { CachedVirtualServer } from "../observed/cached-state.ts";
import type { OwnershipPolicy } from "../ownership/policy.ts";

/** Changes of virtual servers by the step in which they are made. */
export interface ServerChanges {
  /** Creations and updates of virtual servers. */
  readonly virtualServers: Change[];
  /** Creations and updates of real servers. */
  readonly realServers: Change[];
  /** Weight zero for those that leave, and removals of those that do not drain. */
  readonly leaving: Change[];
  readonly drainStarts: DrainStart[];
  readonly removals: Change[];
  /** Tracked UDP flows of what was removed, or had nobody until now. */
  readonly conntrack: Change[];
}

export function noServerChanges(): ServerChanges {
  return {
    virtualServers: [],
    realServers: [],
    leaving: [],
    drainStarts: [],
    removals: [],
    conntrack: [],
  };
}

/** A virtual server as it is to be, and as it is. */
export interface ServerPair {
  readonly key: string;
  readonly desired: PlannedVirtualServer;
  /** Undefined: not there. */
  readonly cached: CachedVirtualServer | undefined;
}

/** What the changes of every virtual server depend on. */
export interface ServerPolicies {
  readonly ownership: OwnershipPolicy;
  readonly drains: DrainsView;
  readonly drain: DrainPolicy;
  /** Whether a third party set the weight of `present`, and it stays although another one is planned. */
  isWeightKept(virtualServerKey: string, planned: RealServer, present: RealServer): boolean;
  /** Nothing was observed before: an earlier run may have taken weights away, and all tracked UDP flows may be stale. */
  readonly isFirst: boolean;
}

/** Adds the changes that create or update a virtual server. */
export function diffServer(
  pair: ServerPair,
  policies: ServerPolicies,
  changes: ServerChanges,
): void {
  const { key, desired, cached } = pair;
  if (cached === undefined) {
    createServer(pair, policies, changes);
    return;
  }
  const { virtualServer: after } = desired;
  if (!sameVirtualServer(after, cached.virtualServer)) {
    changes.virtualServers.push({
      kind: "virtual-server-update",
      key,
      before: cached.virtualServer,
      after,
      reason: "differs",
    });
  }
  // Most of a comparison of everything is this.
  if (desired.realServers !== cached.realServers) diffRealServers(pair, policies, changes);
}

/** Adds the removal of a virtual server; its real servers go with it. */
export function removeServer(
  key: string,
  { virtualServer: before }: CachedVirtualServer,
  changes: ServerChanges,
): void {
  changes.removals.push({ kind: "virtual-server-remove", key, before, reason: "unwanted" });
  noteFlows(key, before, changes);
}

function createServer(
  { key, desired }: ServerPair,
  { ownership }: ServerPolicies,
  changes: ServerChanges,
): void {
  const { virtualServer: after, realServers } = desired;
  // One that a third party made meanwhile is not to be overwritten.
  const mustBeNew = ownership.foreignVirtualServers === "keep";
  changes.virtualServers.push({
    kind: "virtual-server-create",
    key,
    after,
    mustBeNew,
    reason: "missing",
  });
  for (const realServer of realServers) addRealServer(key, after, realServer, changes);
  if (realServers.length > 0) noteFlows(key, after, changes);
}

function addRealServer(
  key: string,
  virtualServer: VirtualServerId,
  after: RealServer,
  { realServers }: ServerChanges,
): void {
  realServers.push({ kind: "real-server-create", key, virtualServer, after, reason: "missing" });
}

function diffRealServers(pair: ServerPair, policies: ServerPolicies, changes: ServerChanges): void {
  const { key, desired, cached } = pair;
  const { virtualServer } = desired;
  const present = cached?.realServers ?? [];
  let getsServer = false;
  const remaining = new Map(present.map((server) => [realServerKey(server), server]));
  for (const planned of desired.realServers) {
    const serverKey = realServerKey(planned);
    const before = remaining.get(serverKey);
    remaining.delete(serverKey);
    const isKept = before !== undefined && policies.isWeightKept(key, planned, before);
    const after = isKept ? { ...planned, weight: before.weight } : planned;
    getsServer ||= !isKept;
    if (before === undefined) addRealServer(key, virtualServer, after, changes);
    else if (!sameRealServer(after, before)) {
      const kind = "real-server-update";
      changes.realServers.push({ kind, key, virtualServer, before, after, reason: "differs" });
    }
  }
  for (const before of remaining.values()) leave(pair, before, policies, changes);
  const hadServer = present.some(({ weight }) => weight > 0);
  if (!hadServer && getsServer) noteFlows(key, virtualServer, changes);
}

/** Nobody wants this real server any more. */
function leave(
  { key, desired }: ServerPair,
  before: RealServer,
  { drains: present, drain, isFirst }: ServerPolicies,
  changes: ServerChanges,
): void {
  const { leaving, drainStarts } = changes;
  const { virtualServer } = desired;
  const isDraining = present.isDraining(key, realServerKey(before));
  // The check of drains ends it, by the deadline of that time.
  if (isDraining && before.weight === 0) return;
  if (!isDraining && !drains(virtualServer.protocol, drainPolicyOf(desired, drain))) {
    leaving.push({ kind: "real-server-remove", key, virtualServer, before, reason: "unwanted" });
    noteFlows(key, virtualServer, changes, before);
    return;
  }
  if (before.weight > 0) {
    const kind = "real-server-update";
    const after = { ...before, weight: 0 };
    leaving.push({ kind, key, virtualServer, before, after, reason: "drain-start" });
  }
  // One that was wanted may have had no weight all the time: it drains from now on.
  const isFound = isFirst && before.weight === 0;
  const reason = isFound ? "found-draining" : "endpoint-removed";
  drainStarts.push({ virtualServerKey: key, virtualServer, realServer: before, reason });
}

/** UDP alone: other protocols' connections end by themselves. */
function noteFlows(
  key: string,
  server: VirtualServer,
  { conntrack }: ServerChanges,
  answeredBy?: RealServerId,
): void {
  if (server.protocol === "UDP") conntrack.push(conntrackDeletion(key, server, answeredBy));
}

/** The deletion of flows to a virtual server; with `answeredBy` of those that this real server answers. */
export function conntrackDeletion(
  key: string,
  { address: destination, port: destinationPort }: VirtualServerId,
  answeredBy?: RealServerId,
): ChangeOf<"conntrack-delete"> {
  const selection = {
    destination,
    destinationPort,
    ...(answeredBy === undefined ? {} : { answeredBy }),
  };
  return { kind: "conntrack-delete", key, selection, reason: "stale-conntrack" };
}

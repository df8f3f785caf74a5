/** Plans the changes that bring one virtual server to its desired state. Pure. */
import type { PlannedVirtualServer } from "../../plan/service-port-plan.ts";
import {
  type RealServer,
  type RealServerId,
  realServerKey,
  sameRealServer,
} from "../../state/real-server.ts";
import {
  type ServerKey,
  sameVirtualServer,
  type VirtualServer,
  type VirtualServerId,
} from "../../state/virtual-server.ts";
import type { ChangeOf } from "../change.ts";
import {
  type DrainPolicy,
  type Drains,
  drainPolicyOf,
  drains,
  protocolOf,
} from "../drain/drains.ts";
import type { CachedVirtualServer } from "../observed/cached-state.ts";
import type { PlanSteps } from "../plan-steps.ts";

/** The desired and the cached state of one virtual server. */
export interface ServerPair {
  readonly key: ServerKey;
  readonly desired: PlannedVirtualServer;
  /** Undefined if it does not exist. */
  readonly cached: CachedVirtualServer | undefined;
}

/** Policies and state that affect the changes to every virtual server. */
export interface ServerPolicies {
  readonly drains: Pick<Drains, "isDraining">;
  readonly drain: DrainPolicy;
  /** Whether to keep the weight of `present`, which a third party set, although the planned weight differs. */
  isWeightKept(virtualServerKey: ServerKey, planned: RealServer, present: RealServer): boolean;
  /**
   * True until a sync has completed without unknown outcomes. Until then, weights of 0 may come from an earlier run,
   * and any UDP conntrack entry may be stale.
   */
  readonly isFirst: boolean;
}

/** Adds the changes that create or update a virtual server. */
export function diffServer(pair: ServerPair, policies: ServerPolicies, steps: PlanSteps): void {
  const { key, desired, cached } = pair;
  if (cached === undefined) {
    createServer(pair, steps);
    return;
  }
  const { virtualServer: after } = desired;
  if (!sameVirtualServer(after, cached.virtualServer)) {
    steps.virtualServers.push({
      kind: "virtual-server-update",
      key,
      before: cached.virtualServer,
      after,
      reason: "differs",
    });
  }
  // In a full comparison, the desired and the cached list are the same object for nearly all virtual servers.
  if (desired.realServers !== cached.realServers) diffRealServers(pair, policies, steps);
}

/** Adds the removal of a virtual server, which also removes its real servers. */
export function removeServer(
  key: ServerKey,
  { virtualServer: before }: CachedVirtualServer,
  steps: PlanSteps,
): void {
  steps.formerServers.push({ kind: "virtual-server-remove", key, before, reason: "unwanted" });
  noteFlows(key, before, steps);
}

function createServer({ key, desired }: ServerPair, steps: PlanSteps): void {
  const { virtualServer: after, realServers } = desired;
  steps.virtualServers.push({ kind: "virtual-server-create", key, after, reason: "missing" });
  for (const realServer of realServers) addRealServer(key, after, realServer, steps);
  if (realServers.length > 0) noteFlows(key, after, steps);
}

function addRealServer(
  key: ServerKey,
  virtualServer: VirtualServerId,
  after: RealServer,
  { realServers }: PlanSteps,
): void {
  realServers.push({ kind: "real-server-create", key, virtualServer, after, reason: "missing" });
}

function diffRealServers(pair: ServerPair, policies: ServerPolicies, steps: PlanSteps): void {
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
    if (before === undefined) addRealServer(key, virtualServer, after, steps);
    else if (!sameRealServer(after, before)) {
      const kind = "real-server-update";
      steps.realServers.push({ kind, key, virtualServer, before, after, reason: "differs" });
    }
  }
  for (const before of remaining.values()) leave(pair, before, policies, steps);
  const hadServer = present.some(({ weight }) => weight > 0);
  if (!hadServer && getsServer) noteFlows(key, virtualServer, steps);
}

/** Removes or drains a real server that is no longer desired. */
function leave(
  { key, desired }: ServerPair,
  before: RealServer,
  { drains: present, drain, isFirst }: ServerPolicies,
  steps: PlanSteps,
): void {
  const { leavingRealServers, drainStarts } = steps;
  const { virtualServer } = desired;
  const isDraining = present.isDraining(key, realServerKey(before));
  // Do nothing here, because the drain check removes the real server when its drain has ended.
  if (isDraining && before.weight === 0) return;
  if (!isDraining && !drains(protocolOf(virtualServer, desired), drainPolicyOf(desired, drain))) {
    leavingRealServers.push({
      kind: "real-server-remove",
      key,
      virtualServer,
      before,
      reason: "unwanted",
    });
    noteFlows(key, virtualServer, steps, before);
    return;
  }
  if (before.weight > 0) {
    const kind = "real-server-update";
    const after = { ...before, weight: 0 };
    leavingRealServers.push({ kind, key, virtualServer, before, after, reason: "drain-start" });
  }
  // If the real server was desired with weight 0 before, its drain starts now.
  const isFound = isFirst && before.weight === 0;
  const reason = isFound ? "found-draining" : "endpoint-removed";
  drainStarts.push({ virtualServerKey: key, virtualServer, realServer: before, reason });
}

/** Adds a deletion of stale flows. Needed only for UDP, because connections of other protocols end by themselves. */
function noteFlows(
  key: ServerKey,
  server: VirtualServer,
  { flows }: PlanSteps,
  answeredBy?: RealServerId,
): void {
  if (server.protocol === "UDP") flows.push(conntrackDeletion(key, server, answeredBy));
}

/** Deletes the flows to a virtual server. With `answeredBy`, deletes only flows to that real server. */
export function conntrackDeletion(
  key: ServerKey,
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

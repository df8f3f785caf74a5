import type { HostPort } from "../../base/ip.ts";
import type { PlannedVirtualServer } from "../../plan/service-port-plan.ts";
import {
  type ObservedRealServer,
  type RealServer,
  type RealServerId,
  realServerKey,
} from "../../state/real-server.ts";
import type { ServerKey, VirtualServerId } from "../../state/virtual-server.ts";

/** How long an unwanted real server may keep its connections. */
export interface DrainPolicy {
  /** Deadline for TCP and SCTP in seconds; 0 means no limit. */
  readonly tcpDeadlineSeconds: number;
  /** Deadline in seconds for UDP flows to an endpoint that is still serving; 0 cuts all UDP flows immediately. */
  readonly udpDeadlineSeconds: number;
}

/** A real server with weight 0 that still has connections. */
export interface Drain {
  readonly virtualServerKey: ServerKey;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServer;
  /** Monotonic milliseconds; negative if the drain began before the clock's origin. */
  readonly sinceMs: number;
}

/** Why a drain ended. Logs and documentation use the same codes. */
export type DrainEnd =
  | "idle"
  | "deadline"
  /** UDP only: the endpoint was removed, or reports that it is not serving. */
  | "not-serving"
  | "wanted-again"
  | "virtual-server-removed"
  | "removed-by-third-party";

/**
 * Stores the drains' start times for the next run. Times are monotonic milliseconds of this process.
 */
export interface DrainStartTimes {
  /** When the drain began according to an earlier run. Undefined if not recorded. */
  recall(key: DrainKey): number | undefined;
  /** Why start times are unknown, as text for the log. Undefined if an earlier run left a record. */
  readonly whyUnknown: string | undefined;
  /** Replaces the record with the current drains. Does not wait and never throws. */
  keep(drains: Iterable<Drain>): void;
}

export const noDrainStartTimes: DrainStartTimes = {
  recall: () => undefined,
  whyUnknown: "start times are not recorded",
  keep() {},
};

/** The facts that determine whether a drain has ended. */
export interface DrainView {
  /** Undefined if the real server no longer exists in the kernel. */
  readonly observed: ObservedRealServer | undefined;
  /**
   * Whether the endpoint is still serving existing connections. It receives no new ones because it is terminating or
   * because closer endpoints are preferred.
   */
  readonly isServing: boolean;
  readonly nowMs: number;
}

/**
 * Grace period for UDP endpoints that no longer exist. Replies that are already on their way still arrive, and a DNS
 * client that keeps its source port loses at most one query.
 */
const udpAnswerSeconds = 2;

/** For example `TCP 10.96.0.1:80 -> 10.244.1.5:8080`. */
export type DrainKey = string & { readonly __brand: "DrainKey" };

export function drainKey({
  virtualServerKey,
  realServer,
}: Pick<Drain, "virtualServerKey" | "realServer">): DrainKey {
  return `${virtualServerKey} -> ${realServerKey(realServer)}` as DrainKey;
}

/** The policy for one virtual server, with its Service's deadline if there is one. Pure. */
export function drainPolicyOf(
  planned: Pick<PlannedVirtualServer, "drainDeadlineSeconds"> | undefined,
  policy: DrainPolicy,
): DrainPolicy {
  const seconds = planned?.drainDeadlineSeconds;
  if (seconds === undefined) return policy;
  return { tcpDeadlineSeconds: seconds, udpDeadlineSeconds: seconds };
}

/** The protocol of a virtual server's connections. `FWM` if its packets have a mark and may have any protocol. */
export function protocolOf(
  { protocol }: Pick<VirtualServerId, "protocol">,
  planned: Pick<PlannedVirtualServer, "range"> | undefined,
): VirtualServerId["protocol"] {
  const { tunnel, protocols = [] } = planned?.range ?? {};
  return tunnel === undefined ? protocol : (protocols[0] ?? protocol);
}

/** Packets with a firewall mark may have any protocol. */
export function mayBeUdp(protocol: VirtualServerId["protocol"]): boolean {
  return protocol === "UDP" || protocol === "FWM";
}

/** Whether real servers of this protocol are drained at all. */
export function drains(protocol: VirtualServerId["protocol"], policy: DrainPolicy): boolean {
  return !mayBeUdp(protocol) || policy.udpDeadlineSeconds > 0;
}

/**
 * Decides whether a drain has ended. Pure. Persistence templates do not delay the end. A TCP drain has no deadline
 * while the endpoint is serving. A UDP drain lasts until its deadline only if the endpoint is still serving: UDP flows
 * never end explicitly, so a client would not notice that its endpoint no longer exists.
 */
export function drainEnd(
  drain: Drain,
  { observed, isServing, nowMs }: DrainView,
  policy: DrainPolicy,
): DrainEnd | undefined {
  if (observed === undefined) return "removed-by-third-party";
  // A third party changed the weight. Verification will find this change, and the drain continues afterwards.
  if (observed.weight !== 0) return undefined;
  if (observed.activeConnections + observed.inactiveConnections === 0) return "idle";
  const elapsedSeconds = (nowMs - drain.sinceMs) / 1000;
  if (!mayBeUdp(drain.virtualServer.protocol)) {
    const { tcpDeadlineSeconds } = policy;
    if (isServing) return undefined;
    return tcpDeadlineSeconds > 0 && elapsedSeconds >= tcpDeadlineSeconds ? "deadline" : undefined;
  }
  if (elapsedSeconds >= policy.udpDeadlineSeconds) return "deadline";
  return !isServing && elapsedSeconds >= udpAnswerSeconds ? "not-serving" : undefined;
}

/** All drains, by virtual server. Each of these real servers has weight 0 in the kernel. */
export class Drains {
  readonly #byServer = new Map<ServerKey, Map<HostPort, Drain>>();
  #size = 0;

  /** This real server's drain. Undefined if it is not draining. */
  find(virtualServerKey: ServerKey, realServer: RealServerId): Drain | undefined {
    return this.#byServer.get(virtualServerKey)?.get(realServerKey(realServer));
  }

  isDraining(virtualServerKey: ServerKey, key: HostPort): boolean {
    return this.#byServer.get(virtualServerKey)?.has(key) ?? false;
  }

  begin(drain: Drain): void {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey) ?? new Map<HostPort, Drain>();
    const key = realServerKey(drain.realServer);
    if (!drainsOfServer.has(key)) this.#size += 1;
    this.#byServer.set(drain.virtualServerKey, drainsOfServer.set(key, drain));
  }

  end(drain: Drain): void {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey);
    if (drainsOfServer?.delete(realServerKey(drain.realServer)) === true) this.#size -= 1;
    if (drainsOfServer?.size === 0) this.#byServer.delete(drain.virtualServerKey);
  }

  of(virtualServerKey: ServerKey): readonly Drain[] {
    return [...(this.#byServer.get(virtualServerKey)?.values() ?? [])];
  }

  /** Keys of the virtual servers that have drains. */
  virtualServerKeys(): readonly ServerKey[] {
    return [...this.#byServer.keys()];
  }

  *all(): Generator<Drain> {
    for (const drainsOfServer of this.#byServer.values()) yield* drainsOfServer.values();
  }

  get size(): number {
    return this.#size;
  }

  /** Start of the oldest drain, in monotonic milliseconds. Undefined if there are no drains. */
  get oldestSinceMs(): number | undefined {
    let oldest: number | undefined;
    for (const { sinceMs } of this.all()) {
      if (oldest === undefined || sinceMs < oldest) oldest = sinceMs;
    }
    return oldest;
  }
}

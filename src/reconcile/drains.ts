import type { Protocol } from "../base/protocol.ts";
import { type ObservedRealServer, type RealServer, realServerKey } from "../state/real-server.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";

/** How long a real server that nobody wants may keep the connections it has. */
export interface DrainPolicy {
  /** Seconds; 0 is without limit. */
  readonly tcpDeadlineSeconds: number;
  /** SCTP as TCP. UDP flows have no end of their own: 0 cuts them at once. */
  readonly udpDeadlineSeconds: number;
}

/** A real server with weight 0 that waits for its connections to end. */
export interface Drain {
  readonly virtualServerKey: string;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServer;
  /** Monotonic milliseconds. */
  readonly sinceMs: number;
}

/** Why a drain ended; the same words in log and metrics. */
export type DrainEnd = "idle" | "deadline" | "wanted-again" | "virtual-server-removed";

/** Whether this protocol drains at all. */
export function drains(protocol: Protocol, policy: DrainPolicy): boolean {
  return protocol !== "UDP" || policy.udpDeadlineSeconds > 0;
}

/** Decides whether a drain is over. Pure. Persistence templates do not hold it up. */
export function drainEnd(
  drain: Drain,
  observed: ObservedRealServer | undefined,
  nowMs: number,
  policy: DrainPolicy,
): DrainEnd | undefined {
  if (observed === undefined) return "idle";
  if (observed.activeConnections + observed.inactiveConnections === 0) return "idle";
  const isUdp = drain.virtualServer.protocol === "UDP";
  const deadlineSeconds = isUdp ? policy.udpDeadlineSeconds : policy.tcpDeadlineSeconds;
  if (deadlineSeconds === 0) return undefined;
  return nowMs - drain.sinceMs >= deadlineSeconds * 1000 ? "deadline" : undefined;
}

/** Everything that drains, by virtual server. What is here has weight 0 in the kernel. */
export class Drains {
  readonly #byServer = new Map<string, Map<string, Drain>>();
  #size = 0;

  /** Adds a drain; one that runs already keeps its age. Says whether it is new. */
  begin(drain: Drain): boolean {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey) ?? new Map<string, Drain>();
    const key = realServerKey(drain.realServer);
    if (drainsOfServer.has(key)) return false;
    this.#byServer.set(drain.virtualServerKey, drainsOfServer.set(key, drain));
    this.#size += 1;
    return true;
  }

  end(drain: Drain): void {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey);
    if (drainsOfServer?.delete(realServerKey(drain.realServer)) === true) this.#size -= 1;
    if (drainsOfServer?.size === 0) this.#byServer.delete(drain.virtualServerKey);
  }

  has(drain: Drain): boolean {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey);
    return drainsOfServer?.has(realServerKey(drain.realServer)) ?? false;
  }

  /** Drains of one virtual server. */
  of(virtualServerKey: string): readonly Drain[] {
    return [...(this.#byServer.get(virtualServerKey)?.values() ?? [])];
  }

  /** Groups of drains, one group for each virtual server. */
  groups(): readonly (readonly Drain[])[] {
    return [...this.#byServer.values()].map((drainsOfServer) => [...drainsOfServer.values()]);
  }

  get size(): number {
    return this.#size;
  }

  /** Monotonic milliseconds at which the oldest began; undefined when nothing drains. */
  get oldestSinceMs(): number | undefined {
    let oldest: number | undefined;
    for (const drainsOfServer of this.#byServer.values()) {
      for (const { sinceMs } of drainsOfServer.values()) {
        if (oldest === undefined || sinceMs < oldest) oldest = sinceMs;
      }
    }
    return oldest;
  }
}

import type { Protocol } from "../../base/protocol.ts";
import type { PlannedVirtualServer } from "../../plan/service-port-plan.ts";
import {
  type ObservedRealServer,
  type RealServer,
  type RealServerId,
  realServerKey,
} from "../../state/real-server.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

/** How long a real server that nobody wants may keep the connections it has. */
export interface DrainPolicy {
  /** Seconds; 0 is without limit. SCTP as TCP. */
  readonly tcpDeadlineSeconds: number;
  /** Seconds for an endpoint that still serves; 0 cuts all UDP flows at once. */
  readonly udpDeadlineSeconds: number;
}

/** A real server with weight 0 that waits for its connections to end. */
export interface Drain {
  readonly virtualServerKey: string;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServer;
  /** Monotonic milliseconds; below zero when it began long before this program. */
  readonly sinceMs: number;
}

/** Why a drain ended; the same words in log and documents. */
export type DrainEnd =
  | "idle"
  | "deadline"
  /** UDP only: the endpoint is gone, or says that it does not serve. */
  | "not-serving"
  | "wanted-again"
  | "virtual-server-removed"
  | "removed-by-third-party";

/**
 * Records when drains began, for the program that runs after this one. Keys are those of
 * {@link drainKey}, times monotonic milliseconds of this program.
 */
export interface DrainStartTimes {
  /** When an earlier run saw this drain begin; undefined where that is not recorded. */
  recall(key: string): number | undefined;
  /** Why nothing can be recalled, in words for the log; undefined where an earlier run left a record. */
  readonly whyUnknown: string | undefined;
  /** Records what drains now, in place of everything recorded before. Does not wait, never throws. */
  keep(drains: Iterable<Drain>): void;
}

/** Records nothing. */
export const noDrainStartTimes: DrainStartTimes = {
  recall: () => undefined,
  whyUnknown: "start times are not recorded",
  keep() {},
};

/** What the end of a drain is judged by. */
export interface DrainView {
  /** Undefined: the kernel does not have the real server any more. */
  readonly observed: ObservedRealServer | undefined;
  /** The endpoint answers, though it is not chosen: it terminates, or others are nearer. */
  readonly isServing: boolean;
  /** Monotonic. */
  readonly nowMs: number;
}

/**
 * What a UDP endpoint that is gone still gets: answers on their way arrive, and a client that keeps its
 * port loses no more than a resolver's one attempt.
 */
const udpAnswerSeconds = 2;

/** `TCP 10.96.0.1:80 -> 10.244.1.5:8080` */
export function drainKey({
  virtualServerKey,
  realServer,
}: Pick<Drain, "virtualServerKey" | "realServer">): string {
  return `${virtualServerKey} -> ${realServerKey(realServer)}`;
}

/** The policy for one virtual server: its Service's deadline where it has one. Pure. */
export function drainPolicyOf(
  planned: Pick<PlannedVirtualServer, "drainDeadlineSeconds"> | undefined,
  policy: DrainPolicy,
): DrainPolicy {
  const seconds = planned?.drainDeadlineSeconds;
  if (seconds === undefined) return policy;
  return { tcpDeadlineSeconds: seconds, udpDeadlineSeconds: seconds };
}

/** Whether this protocol drains at all. */
export function drains(protocol: Protocol, policy: DrainPolicy): boolean {
  return protocol !== "UDP" || policy.udpDeadlineSeconds > 0;
}

/**
 * Decides whether a drain is over. Pure. Persistence templates do not hold it up. A UDP flow has no end,
 * so that its client never learns that nobody answers: it stays only where the endpoint still serves.
 */
export function drainEnd(
  drain: Drain,
  { observed, isServing, nowMs }: DrainView,
  policy: DrainPolicy,
): DrainEnd | undefined {
  if (observed === undefined) return "removed-by-third-party";
  // A third party gave it weight: verification finds that first.
  if (observed.weight !== 0) return undefined;
  if (observed.activeConnections + observed.inactiveConnections === 0) return "idle";
  const elapsedSeconds = (nowMs - drain.sinceMs) / 1000;
  if (drain.virtualServer.protocol !== "UDP") {
    const { tcpDeadlineSeconds } = policy;
    return tcpDeadlineSeconds > 0 && elapsedSeconds >= tcpDeadlineSeconds ? "deadline" : undefined;
  }
  if (elapsedSeconds >= policy.udpDeadlineSeconds) return "deadline";
  return !isServing && elapsedSeconds >= udpAnswerSeconds ? "not-serving" : undefined;
}

/** What planning asks. */
export interface DrainsView {
  isDraining(virtualServerKey: string, realServerKey: string): boolean;
}

/** Everything that drains, by virtual server. What is here has weight 0 in the kernel. */
export class Drains implements DrainsView {
  readonly #byServer = new Map<string, Map<string, Drain>>();
  #size = 0;

  /** The drain of this real server, if it drains. */
  find(virtualServerKey: string, realServer: RealServerId): Drain | undefined {
    return this.#byServer.get(virtualServerKey)?.get(realServerKey(realServer));
  }

  isDraining(virtualServerKey: string, key: string): boolean {
    return this.#byServer.get(virtualServerKey)?.has(key) ?? false;
  }

  begin(drain: Drain): void {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey) ?? new Map<string, Drain>();
    const key = realServerKey(drain.realServer);
    if (!drainsOfServer.has(key)) this.#size += 1;
    this.#byServer.set(drain.virtualServerKey, drainsOfServer.set(key, drain));
  }

  end(drain: Drain): void {
    const drainsOfServer = this.#byServer.get(drain.virtualServerKey);
    if (drainsOfServer?.delete(realServerKey(drain.realServer)) === true) this.#size -= 1;
    if (drainsOfServer?.size === 0) this.#byServer.delete(drain.virtualServerKey);
  }

  /** Drains of one virtual server. */
  of(virtualServerKey: string): readonly Drain[] {
    return [...(this.#byServer.get(virtualServerKey)?.values() ?? [])];
  }

  /** Keys of the virtual servers that have one. */
  virtualServerKeys(): readonly string[] {
    return [...this.#byServer.keys()];
  }

  *all(): Generator<Drain> {
    for (const drainsOfServer of this.#byServer.values()) yield* drainsOfServer.values();
  }

  get size(): number {
    return this.#size;
  }

  /** Monotonic milliseconds at which the oldest began; undefined when nothing drains. */
  get oldestSinceMs(): number | undefined {
    let oldest: number | undefined;
    for (const { sinceMs } of this.all()) {
      if (oldest === undefined || sinceMs < oldest) oldest = sinceMs;
    }
    return oldest;
  }
}

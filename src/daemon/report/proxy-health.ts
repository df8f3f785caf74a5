import type { ResourceKind } from "../../api/source.ts";
import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";

const resourceNames: Readonly<Record<ResourceKind, string>> = {
  services: "Services",
  endpointslices: "EndpointSlices",
  nodes: "the Node object",
};

interface FamilyHealth {
  /** Wall-clock milliseconds since the epoch. */
  updatedAtMs: number;
  /** Monotonic time of the oldest request that no sync has served yet. */
  pendingSinceMs: number | undefined;
}

/** The sync state of one family. */
export interface FamilyStatus {
  readonly family: IpFamily;
  readonly updatedAtMs: number;
  readonly isHealthy: boolean;
}

export interface HealthReport {
  /** Whether all families are healthy, regardless of the node's eligibility. */
  readonly isHealthy: boolean;
  readonly isNodeEligible: boolean;
  /** Time of the latest update in any family. Undefined before the first. */
  readonly updatedAtMs: number | undefined;
  readonly families: readonly FamilyStatus[];
}

/**
 * Tracks whether the proxy keeps up with changes. A family is unhealthy if a requested sync has been pending for longer
 * than the timeout. A family without a pending sync is healthy, however long ago its last sync was.
 */
export class ProxyHealth {
  readonly #clock: Clock;
  #timeoutMs: number;
  readonly #families = new Map<IpFamily, FamilyHealth>();
  /** Resources that the first sync needs and that are not listed yet. */
  readonly #unlisted = new Set<ResourceKind>(["nodes", "services", "endpointslices"]);
  #hasSynced = false;
  #isNodeEligible = true;
  #isEligibleUnsynced = true;
  #isStopping = false;

  /** `timeoutMs` is how long a requested sync may be pending. In kube-proxy, it is twice the sync period. */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Call this when the sync period has changed. */
  setTimeoutMs(timeoutMs: number): void {
    this.#timeoutMs = timeoutMs;
  }

  /** Call this when the family's loop has started. Its health is evaluated from then on. */
  started(family: IpFamily): void {
    this.#families.set(family, { updatedAtMs: this.#clock.nowMs(), pendingSinceMs: undefined });
  }

  /** Call this when all objects of a resource have been listed. */
  listed(kind: ResourceKind): void {
    this.#unlisted.delete(kind);
  }

  /** Call this when a sync was requested. Ignored before {@link started}. */
  queued(family: IpFamily): void {
    const health = this.#families.get(family);
    if (health !== undefined) health.pendingSinceMs ??= this.#clock.monotonicMs();
  }

  /** Call this when a sync has succeeded. */
  updated(family: IpFamily): void {
    this.started(family);
    this.#hasSynced = true;
  }

  /** False while the node is being deleted or drained by the autoscaler. */
  setNodeEligible(isEligible: boolean): void {
    this.#isNodeEligible = isEligible;
  }

  /**
   * Makes the node ineligible until the first sync has succeeded. With kube-proxy, the node is eligible from the start,
   * so load balancers may use it before Services work.
   */
  requireFirstSync(): void {
    this.#isEligibleUnsynced = false;
  }

  /** Call this when the program is stopping, so that load balancers use other nodes. */
  stopping(): void {
    this.#isStopping = true;
  }

  /**
   * Why this node is not ready: no sync has succeeded since startup, or syncs do not keep up. Undefined if the node
   * is ready. This does not affect {@link HealthReport.isHealthy}, which has the same meaning as in kube-proxy: if
   * the API server is unavailable, restarting the proxy would not help.
   */
  get notReadyReason(): string | undefined {
    if (!this.#hasSynced) {
      const missing = [...this.#unlisted].map((kind) => resourceNames[kind]);
      if (missing.length === 0) return "The first sync has not succeeded yet";
      return `The first sync is waiting for ${missing.join(", ")}`;
    }
    const overdue = this.report().families.filter(({ isHealthy }) => !isHealthy);
    if (overdue.length === 0) return undefined;
    const families = overdue.map(({ family }) => family).join(", ");
    return `Syncs are overdue (${families}): none succeeded within ${this.#timeoutMs / 1000} s of being queued`;
  }

  report(): HealthReport {
    const families = [...this.#families].map(([family, health]) => ({
      family,
      updatedAtMs: health.updatedAtMs,
      isHealthy: !this.#isOverdue(health),
    }));
    return {
      isHealthy: families.every(({ isHealthy }) => isHealthy),
      isNodeEligible:
        this.#isNodeEligible && !this.#isStopping && (this.#hasSynced || this.#isEligibleUnsynced),
      updatedAtMs: families.length === 0 ? undefined : newest(families),
      families,
    };
  }

  #isOverdue({ pendingSinceMs }: FamilyHealth): boolean {
    if (pendingSinceMs === undefined) return false;
    return this.#clock.monotonicMs() - pendingSinceMs >= this.#timeoutMs;
  }
}

function newest(families: readonly FamilyStatus[]): number {
  return Math.max(...families.map(({ updatedAtMs }) => updatedAtMs));
}

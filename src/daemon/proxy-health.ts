import type { Clock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";

interface FamilyHealth {
  /** Wall clock, milliseconds since the epoch. */
  updatedAtMs: number;
  /** Monotonic time of the oldest request that no sync has served yet. */
  pendingSinceMs: number | undefined;
}

/** What one family's syncs are like. */
export interface FamilyStatus {
  readonly family: IpFamily;
  readonly updatedAtMs: number;
  readonly isHealthy: boolean;
}

export interface HealthReport {
  /** All families; the node's eligibility is not part of it. */
  readonly isHealthy: boolean;
  readonly isNodeEligible: boolean;
  /** Newest update of any family; undefined before the first. */
  readonly updatedAtMs: number | undefined;
  readonly families: readonly FamilyStatus[];
}

/**
 * Whether the proxy keeps up: a family is unhealthy when a request for a sync waits longer than the
 * time-out. A family with nothing pending is healthy however long ago its last sync was.
 */
export class ProxyHealth {
  readonly #clock: Clock;
  #timeoutMs: number;
  readonly #families = new Map<IpFamily, FamilyHealth>();
  #isNodeEligible = true;

  /** Upstream's time-out is twice the sync period. */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** The sync period changed. */
  setTimeoutMs(timeoutMs: number): void {
    this.#timeoutMs = timeoutMs;
  }

  /** A sync is asked for. A family is judged from its first {@link updated} on. */
  queued(family: IpFamily): void {
    const health = this.#families.get(family);
    if (health !== undefined) health.pendingSinceMs ??= this.#clock.monotonicMs();
  }

  /** A sync succeeded, or the family's loop began. */
  updated(family: IpFamily): void {
    const updatedAtMs = this.#clock.nowMs();
    this.#families.set(family, { updatedAtMs, pendingSinceMs: undefined });
  }

  /** False while the node is being deleted or drained by the autoscaler. */
  setNodeEligible(isEligible: boolean): void {
    this.#isNodeEligible = isEligible;
  }

  get isHealthy(): boolean {
    return this.report().isHealthy;
  }

  report(): HealthReport {
    const families = [...this.#families].map(([family, health]) => ({
      family,
      updatedAtMs: health.updatedAtMs,
      isHealthy: !this.#isOverdue(health),
    }));
    return {
      isHealthy: families.every(({ isHealthy }) => isHealthy),
      isNodeEligible: this.#isNodeEligible,
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

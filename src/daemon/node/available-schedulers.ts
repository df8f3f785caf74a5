import type { ServiceRecord } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import { earliest } from "../../base/earliest.ts";
import type { IpFamily } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import { UseCounts } from "../../base/use-counts.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import { requestedScheduler } from "../../model/annotations.ts";

export interface AvailableSchedulersDependencies {
  readonly ipvs: Pick<Ipvs, "checkScheduler">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly families: readonly IpFamily[];
  /** Whether the configuration allows the scheduler, as `isAllowedScheduler` defines it. */
  readonly isAllowed: (name: string) => boolean;
}

/** How long to wait before requesting a missing scheduler again. Its module may have been loaded by then. */
const recheckMs = 300_000;

/**
 * Asks the kernel whether it has the schedulers that Services name in annotations. Each request makes the kernel load
 * the module `ip_vs_NAME`, so only names that the administrator allows are requested. Otherwise a Service that names
 * the scheduler `ftp` could load ip_vs_ftp on every node.
 */
export class AvailableSchedulers {
  readonly #dependencies: AvailableSchedulersDependencies;
  /** Scheduler names that Services request. */
  readonly #requests = new UseCounts<string>();
  /** Schedulers that the kernel has. They are not requested again. */
  readonly #present = new Set<string>();
  /**
   * For each missing scheduler: monotonic time of the last request to the kernel. An entry is kept even if no Service
   * names the scheduler anymore.
   */
  readonly #askedMs = new Map<string, number>();
  #missing: ReadonlySet<string> = new Set();

  constructor(dependencies: AvailableSchedulersDependencies) {
    this.#dependencies = dependencies;
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    const requested = (service: ServiceRecord | undefined): readonly string[] =>
      [service && requestedScheduler(service)].filter((name) => name !== undefined);
    this.#requests.replace(requested(previous), requested(current));
  }

  /** Monotonic time of the next request for a missing scheduler. Undefined if none is missing. */
  get nextCheckMs(): number | undefined {
    return earliest([...this.#missing].map((name) => this.#nextCheckMs(name)));
  }

  /**
   * Returns the schedulers that Services request and the configuration allows, but the kernel lacks. Returns the same
   * object while the set is unchanged.
   */
  async refresh(): Promise<ReadonlySet<string>> {
    const nowMs = this.#dependencies.clock.monotonicMs();
    const missing = new Set<string>();
    for (const name of this.#requests.values()) {
      if (this.#present.has(name) || !this.#dependencies.isAllowed(name)) continue;
      const isDue = (this.#nextCheckMs(name) ?? nowMs) <= nowMs;
      if (!isDue || !(await this.#isThere(name, nowMs))) missing.add(name);
    }
    if (!sameSet(missing, this.#missing)) this.#missing = missing;
    return this.#missing;
  }

  #nextCheckMs(name: string): number | undefined {
    const askedMs = this.#askedMs.get(name);
    return askedMs === undefined ? undefined : askedMs + recheckMs;
  }

  /** If the request fails for any reason, the scheduler is treated as missing; the default scheduler still works. */
  async #isThere(name: string, nowMs: number): Promise<boolean> {
    const { ipvs, families } = this.#dependencies;
    try {
      for (const family of families) await ipvs.checkScheduler(name, family);
    } catch {
      this.#askedMs.set(name, nowMs);
      return false;
    }
    this.#present.add(name);
    return true;
  }
}

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { SyncSummary } from "./sync-reporter.ts";

export interface FirstSyncParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "firstSyncCompleted">;
}

/** Reports the first sync that succeeds, for whoever rolls out: one log line and one metric. */
export class FirstSync {
  readonly #parts: FirstSyncParts;
  readonly #startedAtMs: number;
  #isOver = false;

  constructor(parts: FirstSyncParts) {
    this.#parts = parts;
    this.#startedAtMs = parts.clock.monotonicMs();
  }

  /** To be called after each sync without a failure. */
  succeeded(summary: Omit<SyncSummary, "families" | "triggers">): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { clock, log, metrics } = this.#parts;
    const { serviceCount, desired, report, isObserveOnly = false, elapsedMs } = summary;
    metrics.firstSyncCompleted();
    log.info("First sync completed", {
      services: serviceCount,
      virtualServers: [...desired.virtualServerKeys()].length,
      [isObserveOnly ? "pendingChanges" : "changes"]: changeCount(report),
      elapsed: `${elapsedMs.toFixed(1)}ms`,
      sinceStart: `${((clock.monotonicMs() - this.#startedAtMs) / 1000).toFixed(1)}s`,
    });
  }
}

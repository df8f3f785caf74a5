import type { LogKeys } from "../../base/log.ts";
import type { ApplyProgress } from "../../reconcile/apply/pass.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { LoopSummary, ReportTargets } from "./loop-reporter.ts";

/** Number of objects in the initial lists. */
export interface ListedCounts {
  readonly services: number;
  readonly endpointSlices: number;
}

/** Pause between two progress lines about the first sync. */
const lifeSignMs = 5_000;

/**
 * Logs progress until the first successful sync, for operators during a rollout. Logs a line when the initial lists are
 * complete, and one every 5 s while a sync is running. At the end, logs a line and sets a metric. Costs nothing
 * afterwards.
 */
export class FirstSync {
  readonly #targets: ReportTargets;
  readonly #startedAtMs: number;
  #isOver = false;

  constructor(targets: ReportTargets) {
    this.#targets = targets;
    this.#startedAtMs = targets.clock.monotonicMs();
  }

  /** Call this once, when all objects are listed. */
  listed(counts: ListedCounts): void {
    this.#targets.log.info("Initial lists completed", { ...counts, ...this.#sinceStart() });
  }

  /** Runs a sync. Logs its progress if no sync has succeeded before. */
  async watch<T>(sync: (onProgress?: ApplyProgress) => Promise<T>): Promise<T> {
    if (this.#isOver) return await sync();
    const { clock, log } = this.#targets;
    const startedAtMs = clock.monotonicMs();
    // Before the first change is applied, the sync reads the kernel and plans the changes.
    let progress: LogKeys = { phase: "plan" };
    const report = (): void => {
      const elapsed = secondsText(clock.monotonicMs() - startedAtMs);
      log.info("First sync in progress", { ...progress, elapsed });
      cancel = clock.after(lifeSignMs, report);
    };
    let cancel = clock.after(lifeSignMs, report);
    try {
      return await sync((done, total) => {
        progress = { phase: "apply", done, total };
      });
    } finally {
      cancel();
    }
  }

  /** Call this after each sync without failures. `figures` returns additional values to log with the first one. */
  succeeded(
    { serviceCount, observeOnly, elapsedMs, report }: LoopSummary,
    figures: () => LogKeys,
  ): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { log, metrics } = this.#targets;
    metrics.firstSyncCompleted.set(1);
    log.info("First sync completed", {
      services: serviceCount,
      ...figures(),
      ...(observeOnly
        ? { pendingChanges: report.plan.changes.length }
        : { changes: changeCount(report) }),
      elapsed: `${elapsedMs.toFixed(1)}ms`,
      ...this.#sinceStart(),
    });
  }

  #sinceStart(): { readonly sinceStart: string } {
    const elapsedMs = this.#targets.clock.monotonicMs() - this.#startedAtMs;
    return { sinceStart: secondsText(elapsedMs) };
  }
}

function secondsText(elapsedMs: number): string {
  return `${(elapsedMs / 1000).toFixed(1)}s`;
}

import type { LogKeys } from "../../base/log.ts";
import type { ApplyProgress } from "../../reconcile/apply/pass.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { LoopSummary, ReportTargets } from "./loop-reporter.ts";

/** Objects that the initial lists brought. */
export interface ListedCounts {
  readonly services: number;
  readonly endpointSlices: number;
}

/** Pause between two lines about a first sync that is under way. */
const lifeSignMs = 5_000;

/**
 * Reports the way to the first sync that succeeds, for whoever rolls out: a line when the initial lists are complete, one
 * every 5 s while a sync runs, and one line and one metric at the end. After that it costs nothing.
 */
export class FirstSync {
  readonly #targets: ReportTargets;
  readonly #startedAtMs: number;
  #isOver = false;

  constructor(targets: ReportTargets) {
    this.#targets = targets;
    this.#startedAtMs = targets.clock.monotonicMs();
  }

  /** To be called once, when everything is listed. */
  listed(counts: ListedCounts): void {
    this.#targets.log.info("Initial lists completed", { ...counts, ...this.#sinceStart() });
  }

  /** Runs a sync. Only the first one is asked for its progress. */
  async watch<T>(sync: (onProgress?: ApplyProgress) => Promise<T>): Promise<T> {
    if (this.#isOver) return await sync();
    const { clock, log } = this.#targets;
    const startedAtMs = clock.monotonicMs();
    // Until something is applied the kernel is observed and the changes are planned.
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

  /** To be called after each sync without a failure; `figures`: what else the mode logs, once. */
  succeeded(
    { serviceCount, isObserveOnly, elapsedMs, report }: LoopSummary,
    figures: () => LogKeys,
  ): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { log, metrics } = this.#targets;
    metrics.firstSyncCompleted.set(1);
    log.info("First sync completed", {
      services: serviceCount,
      ...figures(),
      ...(isObserveOnly
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

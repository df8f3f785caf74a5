import { type Conflict, conflictReasons } from "./conflicts.ts";
import { conflictEvent } from "./events.ts";
import type { ReporterParts } from "./loop-reporter.ts";
import type { SyncHistory } from "./sync-history.ts";

type Parts = Pick<ReporterParts, "metrics" | "log" | "events" | "nodeName"> & {
  readonly history: SyncHistory;
};

/** Services that do not get what they ask for: counted by reason, and each reported when it appears. */
export class ConflictReporter {
  readonly #parts: Parts;
  #reported = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** All that there are now. */
  report(conflicts: readonly Conflict[]): void {
    const { history, metrics, log, events, nodeName } = this.#parts;
    history.noteConflicts(conflicts);
    for (const reason of conflictReasons) {
      const count = conflicts.filter((conflict) => conflict.reason === reason).length;
      metrics.conflicts.set({ reason }, count);
    }
    const reported = new Set<string>();
    for (const conflict of conflicts) {
      if (!this.#reported.has(conflict.key) && !reported.has(conflict.key)) {
        log.warn(conflict.event, { ...conflict.keys, reason: conflict.reason });
        events.record(conflictEvent(nodeName, conflict));
      }
      reported.add(conflict.key);
    }
    this.#reported = reported;
  }
}

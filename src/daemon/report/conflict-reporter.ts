import { type EventRecorder, silentEvents } from "../../api/event.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import { type Conflict, conflictReasons } from "./conflicts.ts";
import { conflictEvent } from "./events.ts";
import type { SyncHistory } from "./sync-history.ts";

export interface ConflictReporterParts {
  readonly metrics: Pick<Metrics, "conflicts">;
  readonly log: Logger;
  /** Absent: nobody reads events. */
  readonly events?: EventRecorder;
  readonly nodeName?: string;
  readonly history: SyncHistory;
}

/** Services that do not get what they ask for: counted by reason, and each reported when it appears. */
export class ConflictReporter {
  readonly #parts: ConflictReporterParts;
  #reported = new Set<string>();

  constructor(parts: ConflictReporterParts) {
    this.#parts = parts;
  }

  /** All that there are now. */
  report(conflicts: readonly Conflict[]): void {
    const { history, metrics, log, events = silentEvents, nodeName = "" } = this.#parts;
    history.noteConflicts(conflicts);
    for (const reason of conflictReasons) {
      const count = conflicts.filter((conflict) => conflict.reason === reason).length;
      metrics.conflicts(reason, count);
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

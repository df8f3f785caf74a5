import { type Conflict, type ConflictReason, conflictReasons } from "./conflicts.ts";
import { conflictEvent } from "./events.ts";
import { Findings } from "./findings.ts";
import type { ReportTargets } from "./loop-reporter.ts";
import type { SyncHistory } from "./sync-history.ts";

type Destinations = Pick<ReportTargets, "metrics" | "log" | "events" | "nodeName" | "clock"> & {
  readonly history: SyncHistory;
};

/** Counts Service conflicts by reason, and reports each when it appears. */
export class ConflictReporter {
  readonly #destinations: Destinations;
  readonly #findings: Findings<Conflict>;

  constructor(destinations: Destinations) {
    this.#destinations = destinations;
    this.#findings = new Findings(destinations, (conflict) => ({
      key: conflict.key,
      begins: conflict.event,
      keys: { ...conflict.keys, reason: conflict.reason },
      events: [conflictEvent(destinations.nodeName, conflict)],
    }));
  }

  /** Takes all current conflicts. */
  report(conflicts: readonly Conflict[]): void {
    const { history, metrics } = this.#destinations;
    for (const reason of Object.keys(conflictReasons) as ConflictReason[]) {
      const count = conflicts.filter((conflict) => conflict.reason === reason).length;
      metrics.conflicts.set({ reason }, count);
    }
    history.conflicts = this.#findings.replace(conflicts);
  }
}

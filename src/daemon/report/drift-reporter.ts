import { driftKinds } from "../../reconcile/drift/drift.ts";
import type { ReconcileConflict } from "../../reconcile/drift/repair-guard.ts";
import type { SyncReport } from "../../reconcile/report.ts";
import { subjectKey, subjectText } from "../../reconcile/subject.ts";
import type { ReporterParts } from "./loop-reporter.ts";

/** Reports what a third party changed, and which repairs it keeps reverting. */
export class DriftReporter {
  readonly #parts: ReporterParts;
  #reported: ReadonlyMap<string, ReconcileConflict> = new Map();

  constructor(parts: ReporterParts) {
    this.#parts = parts;
  }

  /** The audit: a line for each object that a third party changed. */
  drifted({ drifts }: SyncReport): void {
    const { metrics, log } = this.#parts;
    for (const { kind, subject, before, after, action } of drifts) {
      metrics.drift.inc({ kind, action });
      // The reason keeps a flood of one kind from hiding the others.
      const keys = { kind, subject: subjectText(subject), before, after, action };
      log.warn("Kernel state changed by a third party", { ...keys, reason: `drift-${kind}` });
    }
  }

  /** Each reconcile conflict is reported when it begins and when it ends. */
  conflicts({ reconcileConflicts }: SyncReport): void {
    const { metrics, log } = this.#parts;
    for (const kind of driftKinds) {
      const ofKind = reconcileConflicts.filter((conflict) => conflict.kind === kind);
      metrics.suppressedRepairs.set({ kind }, ofKind.length);
    }
    const present = new Map(reconcileConflicts.map((one) => [subjectKey(one.subject), one]));
    for (const [key, { kind, subject, driftCount, pauseMs }] of present) {
      if (this.#reported.has(key)) continue;
      log.warn("Repair keeps being reverted, backing off", {
        kind,
        subject: subjectText(subject),
        times: driftCount,
        backOff: `${pauseMs / 1000}s`,
        reason: "reconcile-conflict",
      });
    }
    for (const [key, { kind, subject }] of this.#reported) {
      if (present.has(key)) continue;
      const keys = { kind, subject: subjectText(subject), reason: "reconcile-conflict" };
      log.info("Repair is no longer reverted", keys);
    }
    this.#reported = present;
  }
}

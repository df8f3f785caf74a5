import type { ServiceName } from "../../api/objects.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import { changeCount, type SyncReport } from "../../reconcile/report.ts";
import { AnnotationReporter } from "./annotation-reporter.ts";
import { conflictsOf } from "./conflicts.ts";
import { DriftReporter } from "./drift-reporter.ts";
import { LoopReporter, type LoopSummary, type ReporterParts } from "./loop-reporter.ts";
import { ManualWeightReporter } from "./manual-weight-reporter.ts";

/** What drains at the moment. */
export interface DrainFigures {
  readonly count: number;
  readonly oldestAgeSeconds: number;
}

/** What there is to say about one sync. */
export interface SyncSummary extends LoopSummary {
  readonly families: readonly IpFamily[];
  readonly desired: DesiredState;
  /** Annotations that do not count, by Service; absent: there are none. */
  readonly annotationProblems?: ReadonlyMap<ServiceName, readonly AnnotationProblem[]>;
  readonly drains: DrainFigures;
}

/** Turns what the loop does into metrics, health, log lines and events. */
export class SyncReporter extends LoopReporter {
  readonly #drifts: DriftReporter;
  readonly #manualWeights: ManualWeightReporter;
  readonly #annotations: AnnotationReporter;
  /** Each is reported when it appears, not with every sync. */
  #reportedForeign = new Set<string>();
  #reportedPossible = new Set<string>();

  constructor(parts: ReporterParts) {
    super(parts);
    this.#drifts = new DriftReporter(parts);
    this.#manualWeights = new ManualWeightReporter(parts);
    this.#annotations = new AnnotationReporter(parts);
  }

  synced(summary: SyncSummary): void {
    const { report, families, elapsedMs } = summary;
    const hasWorked = this.noteSync(summary);
    for (const family of families) this.noteFamily(family, elapsedMs, hasWorked);
    this.#drifts.drifted(report);
    if (hasWorked) this.#noteState(report, summary.desired);
    this.countWithoutLocal(summary.desired, families);
    this.#drainFigures(summary.drains);
    if (hasWorked) this.observeLatency(summary.triggers);
    this.logFailures(report);
    this.#annotations.report(summary.annotationProblems ?? new Map());
    if (hasWorked) this.conflicts.report(conflictsOf(summary, report.conflicts));
    // The families share one sync.
    for (const family of families) this.logCompletion({ ...summary, family }, summary);
    if (!hasWorked) return;
    this.firstSync.succeeded(summary, () => ({
      virtualServers: [...summary.desired.virtualServerKeys()].length,
      changes: changeCount(report),
    }));
  }

  /** A check between syncs found that a third party changed what we wrote; the sync after it says what. */
  driftDetected(state: "sets" | "rules"): void {
    this.parts.metrics.driftDetected.inc({ state });
    this.parts.log.verbose(2, "Drift detected", { state });
  }

  /** A check of the draining real servers is over. */
  drained(report: SyncReport, drains: DrainFigures): void {
    this.countChanges(report);
    this.#drainFigures(drains);
    this.logFailures(report);
    if (report.failures.length > 0) return;
    this.history.refusals = report.refusals.present;
    this.refusals.report(report.refusals);
  }

  /** What a sync that ran knows of the kernel, beside what it changed. */
  #noteState(report: SyncReport, desired: DesiredState): void {
    this.#drifts.conflicts(report);
    this.#manualWeights.report(report, desired);
    this.#noteForeign(report);
    this.#notePossiblyOwned(report);
  }

  /** Foreign virtual servers are counted, and each is named once. */
  #noteForeign({ foreignServers }: SyncReport): void {
    this.parts.metrics.foreignVirtualServers.set(foreignServers.length);
    for (const virtualServer of foreignServers) {
      if (this.#reportedForeign.has(virtualServer)) continue;
      this.parts.log.info("Keeping foreign virtual server", {
        virtualServer,
        reason: "foreign-virtual-server",
      });
    }
    this.#reportedForeign = new Set(foreignServers);
  }

  /** Nothing but its real servers says that it is ours: the operator decides. */
  #notePossiblyOwned({ possiblyOwned }: SyncReport): void {
    for (const virtualServer of possiblyOwned) {
      if (this.#reportedPossible.has(virtualServer)) continue;
      this.parts.log.warn("Virtual server may be a leftover of this proxy", {
        virtualServer,
        reason: "possibly-owned",
        advice:
          "Its real servers are endpoints of Services, but no set or record names it: remove it with ipvsadm -D if it is not used",
      });
    }
    this.#reportedPossible = new Set(possiblyOwned);
  }

  #drainFigures({ count, oldestAgeSeconds }: DrainFigures): void {
    this.parts.metrics.drainingRealServers.set(count);
    this.parts.metrics.oldestDrain.set(oldestAgeSeconds);
  }
}

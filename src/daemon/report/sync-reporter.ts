import type { ServiceName } from "../../api/objects.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { Trigger } from "../../model/change-tracker.ts";
import type { AnnotationProblem } from "../../model/tuning.ts";
import type { LostClaim } from "../../plan/claims/claim.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import { changeCount, type SyncReport } from "../../reconcile/report.ts";
import { AnnotationReporter } from "./annotation-reporter.ts";
import { ConflictReporter } from "./conflict-reporter.ts";
import { conflictsOf } from "./conflicts.ts";
import { DriftReporter } from "./drift-reporter.ts";
import { DryRunReporter, pendingChanges } from "./dry-run-reporter.ts";
import { FirstSync } from "./first-sync.ts";
import { LoopReporter, type LoopReporterParts } from "./loop-reporter.ts";
import { ManualWeightReporter } from "./manual-weight-reporter.ts";
import type { ProxyHealth } from "./proxy-health.ts";
import { RefusalReporter } from "./refusal-reporter.ts";
import { SyncHistory } from "./sync-history.ts";

/** What drains at the moment. */
export interface DrainFigures {
  readonly count: number;
  readonly oldestAgeSeconds: number;
}

/** What there is to say about one sync. */
export interface SyncSummary {
  readonly families: readonly IpFamily[];
  readonly report: SyncReport;
  /** The whole kernel state was compared. */
  readonly isFull: boolean;
  readonly serviceCount: number;
  /** Its changes were not made. */
  readonly isObserveOnly?: boolean;
  /** Services that were planned again. */
  readonly plannedServiceCount: number;
  readonly elapsedMs: number;
  /** When the changes began in the cluster. */
  readonly triggers: readonly Trigger[];
  readonly desired: DesiredState;
  /** Health-check node ports that another Service has. */
  readonly lostHealthPorts: readonly LostClaim[];
  /** Annotations that do not count, by Service; absent: there are none. */
  readonly annotationProblems?: ReadonlyMap<ServiceName, readonly AnnotationProblem[]>;
  readonly drains: DrainFigures;
}

/** Failures logged one by one; the rest is a number. */
const maxLoggedFailures = 10;

/** Turns what the loop does into metrics, health, log lines and events. */
export class SyncReporter extends LoopReporter {
  readonly firstSync: FirstSync;
  readonly #metrics: Metrics;
  readonly #health: ProxyHealth;
  readonly #log: Logger;
  readonly #conflicts: ConflictReporter;
  readonly #drifts: DriftReporter;
  readonly #manualWeights: ManualWeightReporter;
  readonly #dryRun: DryRunReporter;
  readonly #refusals: RefusalReporter;
  readonly #annotations: AnnotationReporter;
  /** What the last syncs came to. */
  readonly history: SyncHistory;
  /** Each is reported when it appears, not with every sync. */
  #reportedForeign = new Set<string>();
  #reportedPossible = new Set<string>();

  constructor(collaborators: LoopReporterParts) {
    super(collaborators);
    this.#metrics = collaborators.metrics;
    this.#health = collaborators.health;
    this.#log = collaborators.log;
    this.#drifts = new DriftReporter(collaborators);
    this.#manualWeights = new ManualWeightReporter(collaborators);
    this.#dryRun = new DryRunReporter(collaborators);
    this.#refusals = new RefusalReporter(collaborators);
    this.#annotations = new AnnotationReporter(collaborators);
    this.firstSync = new FirstSync(collaborators);
    this.history = new SyncHistory(collaborators.clock);
    this.#conflicts = new ConflictReporter({ ...collaborators, history: this.history });
  }

  synced(summary: SyncSummary): void {
    const { report, families, elapsedMs } = summary;
    const hasWorked = report.failures.length === 0;
    for (const family of families) {
      this.#metrics.syncFinished(family, elapsedMs / 1000);
      if (!hasWorked) continue;
      this.#metrics.syncSucceeded(family);
      this.#health.updated(family);
    }
    this.history.noteSync(report, summary);
    this.#metrics.changesTaken();
    this.#metrics.syncRun(summary.isFull ? "full" : "partial", hasWorked ? "success" : "failure");
    if (summary.isObserveOnly !== true) this.#countChanges(report);
    else if (hasWorked) this.#dryRun.planned(pendingChanges(report.plan));
    this.#drifts.drifted(report);
    if (hasWorked) this.#noteState(report, summary.desired);
    this.countWithoutLocal(summary.desired, families);
    this.#drainFigures(summary.drains);
    if (hasWorked) this.observeLatency(summary.triggers);
    this.#logFailures(report);
    this.#annotations.report(summary.annotationProblems ?? new Map());
    if (hasWorked) this.#conflicts.report(conflictsOf(summary, report.conflicts));
    this.#logCompletion(summary);
    if (hasWorked) this.firstSync.succeeded(summary);
  }

  /** A line for each family, as upstream's two proxiers write; here they share one sync. */
  #logCompletion({ families, report, elapsedMs, ...summary }: SyncSummary): void {
    for (const ipFamily of families) {
      this.#log.verbose(2, "SyncProxyRules complete", {
        ipFamily,
        elapsed: `${elapsedMs.toFixed(1)}ms`,
        full: summary.isFull,
        services: summary.serviceCount,
        planned: summary.plannedServiceCount,
        changes: changeCount(report),
        refused: report.refusals.present.length,
        failures: report.failures.length,
      });
    }
  }

  /** A check between syncs found that a third party changed what we wrote; the sync after it says what. */
  driftDetected(state: "sets" | "rules"): void {
    this.#metrics.driftDetected(state);
    this.#log.verbose(2, "Drift detected", { state });
  }

  /** A check of the draining real servers is over. */
  drained(report: SyncReport, drains: DrainFigures): void {
    this.#countChanges(report);
    this.#drainFigures(drains);
    this.#logFailures(report);
    if (report.failures.length > 0) return;
    this.history.refusals = report.refusals.present;
    this.#refusals.report(report.refusals);
  }

  /** What a sync that ran knows of the kernel, beside what it changed. */
  #noteState(report: SyncReport, desired: DesiredState): void {
    this.#drifts.conflicts(report);
    this.#manualWeights.report(report, desired);
    this.#refusals.report(report.refusals);
    this.#noteForeign(report);
    this.#notePossiblyOwned(report);
  }

  #countChanges(report: SyncReport): void {
    for (const [kind, times] of report.changes) this.#metrics.kernelChanges(kind, "success", times);
    for (const { family, elapsedMs, deletedCount } of report.conntrackPasses) {
      this.#metrics.conntrackReconciled(family, elapsedMs / 1000, deletedCount);
    }
    for (const [kind, times] of report.refusedChanges) {
      this.#metrics.kernelChanges(kind, "failure", times);
    }
    for (const { kind } of report.failures) this.#metrics.kernelChanges(kind, "failure", 1);
    for (const family of report.failedRestores) this.#metrics.iptablesRestoreFailed(family);
  }

  /** Foreign virtual servers are counted, and each is named once. */
  #noteForeign({ foreignServers }: SyncReport): void {
    this.#metrics.foreignVirtualServers(foreignServers.length);
    for (const virtualServer of foreignServers) {
      if (this.#reportedForeign.has(virtualServer)) continue;
      this.#log.info("Foreign virtual server left alone", {
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
      this.#log.warn("Virtual server may be a leftover of this proxy", {
        virtualServer,
        reason: "possibly-owned",
        advice:
          "Its real servers are endpoints of Services, but no set or record names it: remove it with ipvsadm -D if it is not used",
      });
    }
    this.#reportedPossible = new Set(possiblyOwned);
  }

  #drainFigures({ count, oldestAgeSeconds }: DrainFigures): void {
    this.#metrics.draining(count, oldestAgeSeconds);
  }

  #logFailures({ failures }: SyncReport): void {
    for (const { kind, subject, error } of failures.slice(0, maxLoggedFailures)) {
      this.#log.error("Kernel change failed", { change: kind, subject, err: errorText(error) });
    }
    if (failures.length > maxLoggedFailures) {
      this.#log.error("More kernel changes failed", { count: failures.length - maxLoggedFailures });
    }
  }
}

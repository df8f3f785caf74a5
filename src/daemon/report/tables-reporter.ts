import { errorText } from "../../base/error-text.ts";
import type { Trigger } from "../../model/change-tracker.ts";
import type { LostClaim } from "../../plan/claims/claim.ts";
import type { DesiredTables } from "../../plan/iptables/desired-tables.ts";
import type { TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import { ConflictReporter } from "./conflict-reporter.ts";
import { claimConflict, healthPortConflict } from "./conflicts.ts";
import { DryRunReporter, pendingChanges } from "./dry-run-reporter.ts";
import { LoopReporter, type LoopReporterParts } from "./loop-reporter.ts";
import { SyncHistory } from "./sync-history.ts";

/** What there is to say about one sync in mode iptables. */
export interface TablesSummary {
  readonly report: TablesReport;
  /** Its changes were not made. */
  readonly isObserveOnly: boolean;
  readonly serviceCount: number;
  /** Services that were planned again. */
  readonly plannedServiceCount: number;
  readonly elapsedMs: number;
  /** When the changes began in the cluster. */
  readonly triggers: readonly Trigger[];
  readonly desired: Pick<DesiredTables, "withoutLocalEndpoints" | "claims">;
  /** Health-check node ports that another Service has. */
  readonly lostHealthPorts: readonly LostClaim[];
}

/** Turns what the loop of mode iptables does into metrics, health and log lines. */
export class TablesReporter extends LoopReporter {
  readonly #parts: LoopReporterParts;
  readonly #dryRun: DryRunReporter;
  readonly #conflicts: ConflictReporter;
  /** What the last syncs came to. */
  readonly history: SyncHistory;
  #isFirst = true;

  constructor(parts: LoopReporterParts) {
    super(parts);
    this.#parts = parts;
    this.#dryRun = new DryRunReporter(parts);
    this.history = new SyncHistory(parts.clock);
    this.#conflicts = new ConflictReporter({ ...parts, history: this.history });
  }

  /** A check between syncs found that rules may differ. */
  comparing(): void {
    this.#parts.metrics.driftDetected("rules");
    this.#parts.log.verbose(2, "Rules may have been changed, comparing them all");
  }

  synced(summary: TablesSummary): void {
    const { metrics, health } = this.#parts;
    const { report } = summary;
    const hasWorked = report.failures.length === 0;
    for (const pass of report.families) {
      const { family } = pass;
      const seconds = pass.elapsedMs / 1000;
      metrics.syncFinished(family, seconds);
      metrics.tablesSynced(family, { ...pass, kind: pass.isFull ? "full" : "partial", seconds });
      if (!pass.hasWorked) continue;
      metrics.syncSucceeded(family);
      health.updated(family);
    }
    const isFull = report.families.some((pass) => pass.isFull);
    this.history.noteSync(report, { isFull, elapsedMs: summary.elapsedMs });
    metrics.changesTaken();
    metrics.syncRun(isFull ? "full" : "partial", hasWorked ? "success" : "failure");
    if (!summary.isObserveOnly) this.#countChanges(report);
    else if (hasWorked) this.#dryRun.planned(pendingChanges(report.plan));
    const families = report.families.map(({ family }) => family);
    this.countWithoutLocal(summary.desired, families);
    this.#logFailures(report);
    this.#logCompletion(summary);
    if (!hasWorked) return;
    this.observeLatency(summary.triggers);
    this.#conflicts.report([
      ...summary.desired.claims.lost().map(claimConflict),
      ...summary.lostHealthPorts.map(healthPortConflict),
    ]);
    if (this.#isFirst) this.#firstSucceeded(summary);
    this.#isFirst = false;
  }

  #countChanges(report: TablesReport): void {
    const { metrics } = this.#parts;
    for (const [kind, times] of report.changes) metrics.kernelChanges(kind, "success", times);
    for (const { kind } of report.failures) metrics.kernelChanges(kind, "failure", 1);
    for (const { family, elapsedMs, deletedCount } of report.conntrackPasses) {
      metrics.conntrackReconciled(family, elapsedMs / 1000, deletedCount);
    }
    for (const { family, isFull, hasWorked } of report.families) {
      if (hasWorked || !report.failedRestores.includes(family)) continue;
      metrics.iptablesRestoreFailed(family);
      if (!isFull) metrics.partialRestoreFailed(family);
    }
  }

  #logFailures({ failures }: TablesReport): void {
    for (const { kind, subject, error } of failures) {
      this.#parts.log.error("Kernel change failed", {
        change: kind,
        subject,
        err: errorText(error),
      });
    }
  }

  /** A line for each family, as upstream's two proxiers write. */
  #logCompletion({ report, serviceCount, plannedServiceCount }: TablesSummary): void {
    for (const { family: ipFamily, elapsedMs, isFull } of report.families) {
      this.#parts.log.verbose(2, "SyncProxyRules complete", {
        ipFamily,
        elapsed: `${elapsedMs.toFixed(1)}ms`,
        full: isFull,
        services: serviceCount,
        planned: plannedServiceCount,
        changes: changeCount(report),
        failures: report.failures.length,
      });
    }
  }

  #firstSucceeded({ report, serviceCount, isObserveOnly, elapsedMs }: TablesSummary): void {
    this.#parts.metrics.firstSyncCompleted();
    this.#parts.log.info("First sync completed", {
      services: serviceCount,
      [isObserveOnly ? "pendingChanges" : "changes"]: isObserveOnly
        ? report.plan.changes.length
        : changeCount(report),
      elapsed: `${elapsedMs.toFixed(1)}ms`,
    });
  }
}

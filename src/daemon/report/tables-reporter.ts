import type { DesiredTables } from "../../plan/iptables/desired-tables.ts";
import type { TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import { claimConflict, healthPortConflict } from "./conflicts.ts";
import { LoopReporter, type LoopSummary } from "./loop-reporter.ts";

/** What there is to say about one sync in mode iptables. */
export interface TablesSummary extends Omit<LoopSummary, "isFull"> {
  readonly report: TablesReport;
  readonly desired: Pick<DesiredTables, "withoutLocalEndpoints" | "claims">;
}

/** Turns what the loop of mode iptables does into metrics, health and log lines. */
export class TablesReporter extends LoopReporter {
  #isFirst = true;

  /** A check between syncs found that rules may differ. */
  comparing(): void {
    this.parts.metrics.driftDetected("rules");
    this.parts.log.verbose(2, "Rules may have been changed, comparing them all");
  }

  synced(summary: TablesSummary): void {
    const { report } = summary;
    for (const { family, elapsedMs, isFull, hasWorked, ...rules } of report.families) {
      this.noteFamily(family, elapsedMs, hasWorked);
      const kind = isFull ? "full" : "partial";
      this.parts.metrics.tablesSynced(family, { ...rules, kind, seconds: elapsedMs / 1000 });
    }
    const isFull = report.families.some((pass) => pass.isFull);
    const hasWorked = this.noteSync({ ...summary, isFull });
    if (!summary.isObserveOnly) this.#countFailedRestores(report);
    const families = report.families.map(({ family }) => family);
    this.countWithoutLocal(summary.desired, families);
    this.logFailures(report);
    this.#logCompletion(summary);
    if (!hasWorked) return;
    this.observeLatency(summary.triggers);
    this.conflicts.report([
      ...summary.desired.claims.lost().map(claimConflict),
      ...summary.lostHealthPorts.map(healthPortConflict),
    ]);
    if (this.#isFirst) this.#firstSucceeded(summary);
    this.#isFirst = false;
  }

  #countFailedRestores(report: TablesReport): void {
    const { metrics } = this.parts;
    for (const { family, isFull, hasWorked } of report.families) {
      if (hasWorked || !report.failedRestores.includes(family)) continue;
      metrics.iptablesRestoreFailed(family);
      if (!isFull) metrics.partialRestoreFailed(family);
    }
  }

  /** A line for each family, as upstream's two proxiers write. */
  #logCompletion({ report, serviceCount, plannedServiceCount }: TablesSummary): void {
    for (const { family: ipFamily, elapsedMs, isFull } of report.families) {
      this.parts.log.verbose(2, "SyncProxyRules complete", {
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
    this.parts.metrics.firstSyncCompleted();
    this.parts.log.info("First sync completed", {
      services: serviceCount,
      [isObserveOnly ? "pendingChanges" : "changes"]: isObserveOnly
        ? report.plan.changes.length
        : changeCount(report),
      elapsed: `${elapsedMs.toFixed(1)}ms`,
    });
  }
}

import type { DesiredTables } from "../../plan/iptables/desired-tables.ts";
import type { FamilySync } from "../../reconcile/iptables/family-reconciler.ts";
import type { TablesReport } from "../../reconcile/iptables/tables-reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import {
  claimConflict,
  healthPortConflict,
  limitConflict,
  reservedConflict,
  waitingConflict,
} from "./conflicts.ts";
import { LoopReporter, type LoopSummary } from "./loop-reporter.ts";

/** What there is to say about one sync in iptables mode. */
export interface TablesSummary extends Omit<LoopSummary, "isFull"> {
  readonly report: TablesReport;
  readonly desired: Pick<DesiredTables, "withoutLocalEndpoints" | "claims" | "unservedAddresses">;
}

/** Turns what the loop of iptables mode does into metrics, health and log lines. */
export class TablesReporter extends LoopReporter {
  /** A check between syncs found that rules may differ. */
  comparing(): void {
    this.targets.metrics.driftDetected.inc({ state: "rules" });
    this.targets.log.verbose(2, "Rules may have been changed, comparing them all");
  }

  synced(summary: TablesSummary): void {
    const { report } = summary;
    for (const pass of report.families) {
      this.noteFamily(pass.family, pass.elapsedMs, pass.hasWorked);
      this.#countRules(pass);
    }
    const isFull = report.families.some((pass) => pass.isFull);
    const hasWorked = this.noteSync({ ...summary, isFull });
    if (!summary.isObserveOnly) this.#countFailedPartialRestores(report);
    const families = report.families.map(({ family }) => family);
    this.countWithoutLocal(summary.desired, families);
    this.logFailures(report);
    for (const pass of report.families) this.logCompletion(pass, summary);
    if (!hasWorked) return;
    this.observeLatency(summary.triggers);
    this.conflicts.report([
      ...summary.desired.claims.lost().map(claimConflict),
      ...summary.lostHealthPorts.map(healthPortConflict),
      ...summary.desired.unservedAddresses().map(reservedConflict),
      ...summary.waitingClaims.map(waitingConflict),
      ...[...summary.limitedServices].map(limitConflict),
    ]);
    this.firstSync.succeeded(summary, () => ({
      changes: summary.isObserveOnly ? report.plan.changes.length : changeCount(report),
    }));
  }

  #countRules({ family, elapsedMs, isFull, totalRules, writtenRules }: FamilySync): void {
    const { metrics } = this.targets;
    const duration = isFull ? metrics.fullSyncDuration : metrics.partialSyncDuration;
    duration.observe({ ip_family: family }, elapsedMs / 1000);
    for (const [table, count] of totalRules) {
      const labels = { ip_family: family, table };
      metrics.iptablesRules.set(labels, count);
      metrics.iptablesRulesWritten.set(labels, writtenRules.get(table) ?? 0);
    }
  }

  #countFailedPartialRestores({ families, failedRestores }: TablesReport): void {
    for (const { family, isFull } of families) {
      if (isFull || !failedRestores.includes(family)) continue;
      this.targets.metrics.partialRestoreFailures.inc({ ip_family: family });
    }
  }
}

import type { FamilySync } from "../../reconcile/iptables/tables-reconciler.ts";
import { LoopReporter, type LoopSummary } from "./loop-reporter.ts";

/** The reporter for iptables mode, which syncs each family separately. */
export class TablesReporter extends LoopReporter<readonly FamilySync[]> {
  protected override passesOf(families: readonly FamilySync[]): readonly FamilySync[] {
    return families;
  }

  protected override noteFindings(
    families: readonly FamilySync[],
    { report, observeOnly }: LoopSummary,
  ): void {
    for (const pass of families) this.#countRules(pass);
    if (observeOnly) return;
    for (const { family, isFull } of families) {
      if (isFull || !report.failedRestores.includes(family)) continue;
      this.targets.metrics.partialRestoreFailures.inc({ ip_family: family });
    }
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
}

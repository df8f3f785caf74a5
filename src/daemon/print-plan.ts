/** `kube-ipvs plan`: what a sync would change in this kernel, by the daemon's own planning. Nothing is written. */
import type { Config } from "../config/config.ts";
import { openKernel } from "../kernel/open-kernel.ts";
import { silentMetrics } from "../metrics/metrics.ts";
import { planObject } from "../reconcile/render/plan-json.ts";
import { planText } from "../reconcile/render/plan-text.ts";
import type { SyncReport } from "../reconcile/report.ts";
import { openSource } from "./process/open-source.ts";
import { readOwnershipRecord } from "./process/ownership-record.ts";
import { ProxyHealth } from "./report/proxy-health.ts";
import type { CommandParts } from "./run.ts";
import { startDaemon } from "./start.ts";

/** Prints the plan of a first sync. Resolves with whether it has changes; rejects where it cannot be worked out. */
export async function printPlan(
  config: Config,
  { clock, log, print }: Pick<CommandParts, "clock" | "log" | "print">,
  format: "text" | "json",
): Promise<boolean> {
  const planned = Promise.withResolvers<SyncReport>();
  const observer = silentMetrics;
  const { source, close } = await openSource(config, { clock, log, observer });
  try {
    const kernel = await openKernel({ clock, log, environment: process.env });
    try {
      const daemon = await startDaemon({
        config: { ...config, isObserveOnly: true },
        kernel,
        source,
        metrics: silentMetrics,
        health: new ProxyHealth(clock, config.syncPeriodMs),
        clock,
        log,
        ownershipRecord: readOwnershipRecord(config.drainAgesPath),
        onReport: planned.resolve,
        fail: planned.reject,
      });
      const { plan, failures } = await planned.promise;
      await daemon.stop();
      const [failure] = failures;
      if (failure !== undefined) throw failure.error;
      print(
        format === "json"
          ? JSON.stringify(planObject(plan), undefined, 2)
          : planText(plan).trimEnd(),
      );
      return plan.changes.length > 0;
    } finally {
      kernel.close();
    }
  } finally {
    await close();
  }
}

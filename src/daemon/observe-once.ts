/** Runs the daemon's planning once, for commands that only read. Writes nothing. */
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { openKernel } from "../kernel/open-kernel.ts";
import { prometheusMetrics } from "../metrics/prometheus-metrics.ts";
import type { SyncReport } from "../reconcile/report.ts";
import type { ModeView } from "./operator/daemon-view.ts";
import { answerDeadline } from "./process/answer-deadline.ts";
import { openClaimMemory } from "./process/claim-record.ts";
import { rampStartTimesIn } from "./process/drain-start-times.ts";
import { openSource } from "./process/open-source.ts";
import { holderRecordIn, ownershipRecordIn } from "./process/ownership-record.ts";
import { readState, systemBootClock } from "./process/state-file.ts";
import { ProxyHealth } from "./report/proxy-health.ts";
import type { RunContext } from "./run.ts";
import { startDaemon } from "./start.ts";

const userspaceText =
  "Cannot say what a start would find: userspace mode serves from sockets of its own process; if it runs, ask it: kube-ipvs services";

/** The state that a first sync would find, and its report. */
export interface Observation {
  readonly report: SyncReport;
  readonly view: ModeView;
}

/** Calls `read` with the result of a first sync in observe-only mode. Rejects if the sync fails or takes too long. */
export async function observeOnce<T>(
  config: Config,
  { clock, log }: Pick<RunContext, "clock" | "log">,
  read: (observation: Observation) => T | Promise<T>,
): Promise<T> {
  if (config.mode === "userspace") throw new Error(userspaceText);
  const planned = Promise.withResolvers<SyncReport>();
  const deadline = answerDeadline(config, clock);
  const { observer } = deadline;
  const state = readState(config.statePath, log);
  const { source, close } = await openSource(config, { clock, log, observer });
  try {
    const kernel = await openKernel({
      clock,
      log,
      environment: process.env,
      virtualAddresses: config.virtualAddresses,
    });
    try {
      const starting = startDaemon({
        config: { ...config, isObserveOnly: true },
        kernel,
        source,
        metrics: prometheusMetrics({ version }),
        health: new ProxyHealth(clock, config.syncPeriodMs),
        clock,
        log,
        ownershipRecord: ownershipRecordIn(state),
        holderRecord: holderRecordIn(state),
        claimMemory: openClaimMemory(config, { clock, log }).claimMemory,
        rampStartTimes: rampStartTimesIn(state, { clock, bootClock: systemBootClock() }),
        onReport: planned.resolve,
        fail: planned.reject,
      });
      const found = Promise.all([starting, planned.promise]);
      const [daemon, report] = await Promise.race([found, deadline.expired]);
      await daemon.stop();
      const [failure] = report.failures;
      if (failure !== undefined) throw failure.error;
      return await read({ report, view: daemon.view });
    } finally {
      kernel.close();
    }
  } finally {
    deadline.stop();
    await close();
  }
}

/** Runs the daemon's planning once, for read-only commands. Writes nothing. */
import { silentEvents } from "../api/event.ts";
import { type AppliedFile, withAppliedFile } from "../api/manifest/applied-file.ts";
import type { Refuse } from "../api/refusals.ts";
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { prometheusMetrics } from "../metrics/prometheus-metrics.ts";
import type { SyncReport } from "../reconcile/report.ts";
import { openNodeKernel } from "./node/open-node-kernel.ts";
import type { ModeView } from "./operator/daemon-view.ts";
import { answerDeadline } from "./process/answer-deadline.ts";
import { openClaimMemory } from "./process/claim-record.ts";
import { rampStartTimesIn } from "./process/drain-start-times.ts";
import { numberRecordIn } from "./process/number-record.ts";
import { openSource } from "./process/open-source.ts";
import { holderRecordIn, ownershipRecordIn } from "./process/ownership-record.ts";
import { readState, type StateFile, systemBootClock } from "./process/state-file.ts";
import { ProxyHealth } from "./report/proxy-health.ts";
import type { RunContext } from "./run.ts";
import { type DaemonContext, startDaemon } from "./start.ts";

const userspaceText =
  "Cannot show what the daemon would find at startup: in userspace mode, Services are served by the daemon's own sockets; start the daemon, then run kube-ipvs services";

export interface ObserveOnceContext extends Pick<RunContext, "clock" | "log"> {
  /** A file whose objects are used as if it had been applied to the cluster. */
  readonly applied?: AppliedFile | undefined;
}

/** The state that a first sync would find, and the report of that sync. */
export interface Observation {
  readonly report: SyncReport;
  readonly view: ModeView;
  readonly kernel: Kernel;
}

/** Calls `read` with the result of a first sync in observe-only mode. Rejects if the sync fails or takes too long. */
export async function observeOnce<T>(
  config: Config,
  parts: ObserveOnceContext,
  read: (observation: Observation) => T | Promise<T>,
): Promise<T> {
  if (config.mode === "userspace") throw new Error(userspaceText);
  const kernel = await openNodeKernel(config, parts);
  try {
    const { running, report } = await firstSync(config, parts, (context, state) =>
      startDaemon({
        ...{ ...context, kernel },
        ownershipRecord: ownershipRecordIn(state),
        weightRecord: numberRecordIn(state, "answeredWeights"),
        ejectionRecord: numberRecordIn(state, "ejections"),
        rampStartTimes: rampStartTimesIn(state, { ...parts, bootClock: systemBootClock() }),
      }),
    );
    return await read({ report, kernel, view: running.view });
  } finally {
    kernel.close();
  }
}

/** The context of a mode that runs only until its first sync has ended. */
type FirstSyncContext = Required<
  Pick<
    DaemonContext,
    | "config"
    | "source"
    | "clock"
    | "log"
    | "events"
    | "metrics"
    | "health"
    | "holderRecord"
    | "claimMemory"
    | "onReport"
    | "fail"
  >
>;

/**
 * Runs a mode in observe-only form, and stops it after its first sync. Rejects if that sync fails or the API server
 * does not answer.
 */
export async function firstSync<T extends { stop(): Promise<void> }>(
  config: Config,
  { clock, log, applied }: ObserveOnceContext,
  begin: (context: FirstSyncContext, state: StateFile) => Promise<T>,
): Promise<{ readonly running: T; readonly report: SyncReport }> {
  const planned = Promise.withResolvers<SyncReport>();
  const deadline = answerDeadline(config, clock);
  const { observer } = deadline;
  const state = readState(config.stateFile, log);
  const { source: found, close } = await openSource(config, { clock, log, observer });
  try {
    const { serviceProxyName } = config;
    const refuse: Refuse = ({ message }) => planned.reject(new Error(message));
    const source =
      applied === undefined ? found : withAppliedFile(found, applied, { serviceProxyName, refuse });
    const context = {
      ...{ config: { ...config, observeOnly: true }, source, clock, log, events: silentEvents },
      metrics: prometheusMetrics({ version }),
      health: new ProxyHealth(clock, config.syncPeriodMs),
      holderRecord: holderRecordIn(state),
      claimMemory: openClaimMemory(config, { clock, log }).claimMemory,
      onReport: planned.resolve,
      fail: planned.reject,
    };
    const synced = Promise.all([begin(context, state), planned.promise]);
    const [running, report] = await Promise.race([synced, deadline.expired]);
    await running.stop();
    const [failure] = report.failures;
    if (failure !== undefined) throw failure.error;
    return { running, report };
  } finally {
    deadline.stop();
    await close();
  }
}

import type { Config } from "../config/config.ts";
import type { ReconcilerOptions } from "../reconcile/reconciler.ts";
import type { RunnerOptions } from "./runner.ts";

/** The configuration that counts at the moment; a reload puts another in its place. */
export interface LiveConfig {
  readonly current: Config;
}

/** Pause before a sync that failed is tried again. */
const firstRetryMs = 1_000;

/** What the runner reads each time it needs it. */
export function liveRunnerOptions(live: LiveConfig): RunnerOptions {
  return {
    get minIntervalMs() {
      return live.current.minSyncPeriodMs;
    },
    get maxIntervalMs() {
      return Math.min(live.current.syncPeriodMs, live.current.verificationPeriodMs);
    },
    firstRetryMs,
  };
}

/** What the reconciler reads each time it needs it. */
export function liveReconcilerOptions(live: LiveConfig): ReconcilerOptions {
  return {
    get ownership() {
      const { foreignVirtualServers, excludeCidrs } = live.current;
      return { foreignVirtualServers, excludeCidrs };
    },
    isObserveOnly: live.current.isObserveOnly,
    drain: {
      get tcpDeadlineSeconds() {
        return live.current.drain.tcpDeadlineSeconds;
      },
      get udpDeadlineSeconds() {
        return live.current.drain.udpDeadlineSeconds;
      },
    },
  };
}

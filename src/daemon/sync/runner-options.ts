import type { LiveConfig } from "../process/live-config.ts";
import type { RunnerOptions } from "./runner.ts";

/** Pause before a sync that failed is retried. */
export const firstRetryMs = 1_000;

/** When syncs run, as configured. */
export function runnerOptions({ current }: LiveConfig): RunnerOptions {
  const { minSyncPeriodMs: minIntervalMs, syncPeriodMs, verificationPeriodMs } = current;
  const longestRetryMs = Math.min(syncPeriodMs, verificationPeriodMs);
  return { minIntervalMs, firstRetryMs, longestRetryMs };
}

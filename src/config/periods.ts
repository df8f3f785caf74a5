import type { Config, ProxyMode } from "./config.ts";
import type { Settings } from "./fields.ts";

/** Reports a problem of a setting that is well-formed by itself. */
type Report = (path: keyof Settings, value: unknown, reason: string) => void;

/** Reports a longest pause that is shorter than the shortest. */
export function checkPeriods(settings: Settings, mode: ProxyMode, report: Report): void {
  const { syncPeriodMs, minSyncPeriodMs } = periodsOf(settings, mode);
  if (syncPeriodMs >= minSyncPeriodMs) return;
  const section = mode === "iptables" ? "iptables" : "ipvs";
  const minimum = `${minSyncPeriodMs / 1000}s`;
  report(
    `${section}.syncPeriod`,
    undefined,
    `must not be shorter than ${section}.minSyncPeriod (${minimum})`,
  );
}

/** Mode iptables has a section of its own; userspace takes that of ipvs. */
export function periodsOf(
  settings: Settings,
  mode: ProxyMode,
): Pick<Config, "syncPeriodMs" | "minSyncPeriodMs"> {
  const section = mode === "iptables" ? "iptables" : "ipvs";
  return {
    syncPeriodMs: settings[`${section}.syncPeriod`],
    minSyncPeriodMs: settings[`${section}.minSyncPeriod`],
  };
}

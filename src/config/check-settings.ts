/** Checks combinations of settings that are valid individually. */
import { isSchedulerName } from "../base/scheduler.ts";
import type { ProxyMode } from "./config.ts";
import type { Settings } from "./fields.ts";
import { emptyModeReason } from "./proxy-mode.ts";

export type Report = (path: keyof Settings, value: unknown, reason: string) => void;

/** Reports all problems. `mode` is the effective mode. */
export function checkSettings(
  settings: Settings,
  { mode, isModeRequired }: { readonly mode: ProxyMode; readonly isModeRequired: boolean },
  report: Report,
): void {
  if (isModeRequired && settings.mode === "" && settings["kubeIpvs.profile"] !== "kube-proxy") {
    report("mode", undefined, emptyModeReason);
  }
  checkMode(settings, report);
  if (settings["kubeIpvs.rules"] === "nftables" && mode !== "ipvs") {
    report("kubeIpvs.rules", "nftables", `not supported in ${mode} mode, which needs iptables`);
  }
  checkPeriods(settings, mode === "iptables" ? "iptables" : "ipvs", report);
  checkSchedulers(settings, report);
}

function checkMode({ mode }: Settings, report: Report): void {
  if (["", "ipvs", "iptables", "userspace"].includes(mode)) return;
  const known = mode === "nftables" ? "; for nftables mode, use kube-proxy" : "";
  report("mode", mode, `kube-ipvs supports the proxy modes ipvs, iptables and userspace${known}`);
}

/** Reports a syncPeriod that is shorter than minSyncPeriod. */
function checkPeriods(settings: Settings, section: "iptables" | "ipvs", report: Report): void {
  const minimumMs = settings[`${section}.minSyncPeriod`];
  if (settings[`${section}.syncPeriod`] >= minimumMs) return;
  const reason = `must not be shorter than ${section}.minSyncPeriod (${minimumMs / 1000}s)`;
  report(`${section}.syncPeriod`, undefined, reason);
}

function checkSchedulers({ "kubeIpvs.extraSchedulers": names }: Settings, report: Report): void {
  for (const name of names) {
    if (isSchedulerName(name)) continue;
    report("kubeIpvs.extraSchedulers", name, "must be the name of an IPVS scheduler, such as wrr");
  }
}

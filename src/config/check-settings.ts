/** Rules between settings, each of which is well-formed by itself. */
import { kubernetesVersion } from "../base/version.ts";
import type { ProxyMode } from "./config.ts";
import { gateValues } from "./feature-gates.ts";
import type { Settings } from "./fields.ts";
import { emptyModeReason } from "./proxy-mode.ts";

/** Reports a problem of a setting that is well-formed by itself. */
export type Report = (path: keyof Settings, value: unknown, reason: string) => void;

/** Reports everything that is wrong; `mode`: the one in force. */
export function checkSettings(
  settings: Settings,
  { mode, isModeRequired }: { readonly mode: ProxyMode; readonly isModeRequired: boolean },
  report: Report,
): void {
  if (isModeRequired && settings.mode === "" && settings["kubeIpvs.profile"] !== "kube-proxy") {
    report("mode", undefined, emptyModeReason);
  }
  checkMode(settings, report);
  checkPeriods(settings, mode === "iptables" ? "iptables" : "ipvs", report);
  checkHiddenMetrics(settings, report);
  checkLogging(settings, report);
}

function checkMode({ mode }: Settings, report: Report): void {
  if (["", "ipvs", "iptables", "userspace"].includes(mode)) return;
  const known = mode === "nftables" ? "; for mode nftables, use kube-proxy" : "";
  report("mode", mode, `kube-ipvs supports the proxy modes ipvs, iptables and userspace${known}`);
}

/** Reports a longest pause that is shorter than the shortest. */
function checkPeriods(settings: Settings, section: "iptables" | "ipvs", report: Report): void {
  const minimumMs = settings[`${section}.minSyncPeriod`];
  if (settings[`${section}.syncPeriod`] >= minimumMs) return;
  const reason = `must not be shorter than ${section}.minSyncPeriod (${minimumMs / 1000}s)`;
  report(`${section}.syncPeriod`, undefined, reason);
}

/** Metrics are hidden one release after they were deprecated. */
function checkHiddenMetrics(
  { showHiddenMetricsForVersion: version }: Settings,
  report: Report,
): void {
  const [major, minor] = kubernetesVersion.split(".");
  const previous = `${major}.${Number(minor) - 1}`;
  if (version === "" || version === previous) return;
  report(
    "showHiddenMetricsForVersion",
    version,
    `must be empty or the previous minor version, ${previous}`,
  );
}

function checkLogging(settings: Settings, report: Report): void {
  const { "logging.vmodule": vmodule, "logging.format": format } = settings;
  if (vmodule.length > 0 && format !== "text") {
    report("logging.vmodule", undefined, "is supported for format text only");
  }
  if (gateValues(settings.featureGates).get("LoggingAlphaOptions") === true) return;
  const reason = "requires the feature gate LoggingAlphaOptions";
  for (const path of alphaSwitches) if (settings[path]) report(path, true, reason);
  for (const path of alphaSizes) {
    if (!/^[+-]?0+$/.test(settings[path])) report(path, settings[path], reason);
  }
}

const alphaSwitches = [
  "logging.options.text.splitStream",
  "logging.options.json.splitStream",
] as const;
const alphaSizes = [
  "logging.options.text.infoBufferSize",
  "logging.options.json.infoBufferSize",
] as const;

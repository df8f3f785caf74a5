import type { Command, ProxyMode } from "./config.ts";
import type { Settings } from "./fields.ts";
import type { ConfigNotice } from "./notice.ts";

/** The settings that determine the mode. */
export type ModeSettings = Pick<Settings, "mode" | "kubeIpvs.profile">;

/** Returns the effective mode. An empty mode means iptables with the kube-proxy profile, and ipvs otherwise. */
export function proxyModeOf({ mode, "kubeIpvs.profile": profile }: ModeSettings): ProxyMode {
  if (mode === "") return profile === "kube-proxy" ? "iptables" : "ipvs";
  return mode === "iptables" || mode === "userspace" ? mode : "ipvs";
}

/**
 * Why an empty mode in a configuration file is invalid. kubeadm writes an empty mode, which kube-proxy reads as
 * iptables. kube-ipvs must not silently use IPVS instead, nor silently serve thousands of Services with iptables.
 */
export const emptyModeReason =
  "must be set: choose ipvs (mode: ipvs, or --proxy-mode=ipvs) to serve Services with IPVS, or iptables (mode: iptables, or --proxy-mode=iptables), which kube-proxy uses if the mode is empty";

/** Reports which mode an empty mode selects. Not for clean-up, which removes the state of every mode. */
export function emptyModeNotices(
  settings: ModeSettings,
  command: Command,
): readonly ConfigNotice[] {
  if (settings.mode !== "" || command === "clean-up") return [];
  const chosen = proxyModeOf(settings);
  const event = `No proxy mode chosen, using ${chosen}`;
  if (chosen === "ipvs")
    return command === "subcommand" ? [] : [{ level: "info", event, keys: {} }];
  const reason = "kubeIpvs.profile is kube-proxy, which uses iptables if the mode is empty";
  const advice = "To serve Services with IPVS, set mode: ipvs, or pass --proxy-mode=ipvs";
  return [{ level: "warn", event, keys: { reason, advice } }];
}

import type { Command, ProxyMode } from "./config.ts";
import type { ConfigNotice } from "./notice.ts";

/**
 * How Services are served. An empty mode in a configuration file, as kubeadm writes it, means iptables, as it does to
 * kube-proxy; without a file it means ipvs.
 */
export function proxyModeOf(mode: unknown, hasFile: boolean): ProxyMode {
  if (mode === "") return hasFile ? "iptables" : "ipvs";
  return mode === "iptables" || mode === "userspace" ? mode : "ipvs";
}

/** Says which mode an empty one means. Clean-up removes what any mode left; a command that asks starts nothing. */
export function emptyModeNotices(
  mode: string,
  { hasFile, command }: { readonly hasFile: boolean; readonly command: Command },
): readonly ConfigNotice[] {
  if (mode !== "" || command === "clean-up") return [];
  const chosen = proxyModeOf(mode, hasFile);
  const event = `No proxy mode chosen, using ${chosen}`;
  if (!hasFile) return command === "subcommand" ? [] : [{ level: "info", event, keys: {} }];
  const reason = "an empty mode in a configuration file means iptables, as it does to kube-proxy";
  const advice = "To serve with IPVS, write mode: ipvs, or pass --proxy-mode=ipvs";
  return [{ level: "warn", event, keys: { reason, advice } }];
}

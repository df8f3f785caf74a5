import type { ProxyMode } from "./config.ts";

/**
 * How Services are served. An empty mode in a configuration file, as kubeadm writes it, means iptables, as it does to
 * kube-proxy; without a file it means ipvs.
 */
export function proxyModeOf(mode: unknown, hasFile: boolean): ProxyMode {
  if (mode === "") return hasFile ? "iptables" : "ipvs";
  return mode === "iptables" || mode === "userspace" ? mode : "ipvs";
}

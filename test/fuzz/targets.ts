/** All fuzz targets by name. They are loaded on demand, because each runs in its own process. */
import type { FuzzTarget } from "./target.ts";

type TargetsFile = { readonly targets: readonly unknown[] };

const files: Readonly<Record<string, () => Promise<TargetsFile>>> = {
  "netlink-messages": () => import("./targets/netlink.ts"),
  "netlink-ipvs": () => import("./targets/netlink.ts"),
  "netlink-ipset": () => import("./targets/netlink.ts"),
  "netlink-link": () => import("./targets/netlink.ts"),
  "netlink-conntrack": () => import("./targets/netlink.ts"),
  "iptables-save": () => import("./targets/kernel-text.ts"),
  services: () => import("./targets/objects.ts"),
  endpointslices: () => import("./targets/objects.ts"),
  nodes: () => import("./targets/objects.ts"),
  "api-lists": () => import("./targets/api-answers.ts"),
  "api-watches": () => import("./targets/api-answers.ts"),
  manifests: () => import("./targets/files.ts"),
  configuration: () => import("./targets/files.ts"),
  kubeconfigs: () => import("./targets/kubeconfigs.ts"),
  "log-lines": () => import("./targets/log-lines.ts"),
  "http-requests": () => import("./targets/http-requests.ts"),
  "http-debug": () => import("./targets/http-requests.ts"),
  "http-service-health": () => import("./targets/http-requests.ts"),
  "operator-socket": () => import("./targets/operator-socket.ts"),
  "tenant-ipvs": () => import("./targets/tenants.ts"),
  "tenant-iptables": () => import("./targets/tenants.ts"),
  "tenant-userspace": () => import("./targets/tenants.ts"),
};

/** The slow targets are first, so that both processors finish at the same time. */
export const targetNames: readonly string[] = [
  ...[
    "configuration",
    "manifests",
    "http-requests",
    "http-debug",
    "http-service-health",
    "operator-socket",
    "tenant-ipvs",
    "tenant-iptables",
    "tenant-userspace",
    "kubeconfigs",
    "services",
    "endpointslices",
  ],
  ...Object.keys(files),
].filter((name, index, names) => names.indexOf(name) === index);

/** Throws if there is no such target. */
export async function loadTarget(name: string): Promise<FuzzTarget> {
  const targets = ((await files[name]?.())?.targets ?? []) as readonly FuzzTarget[];
  const found = targets.find((target) => target.name === name);
  if (found === undefined) throw new Error(`No target named ${name}`);
  return found;
}

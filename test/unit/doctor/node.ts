/** A node without problems. */
import type { IpAddress } from "../../../src/base/ip.ts";
import { version } from "../../../src/base/version.ts";
import type { AddressFacts, Cluster, Node, TunnelFact } from "../../../src/doctor/node.ts";

export function known<T>(value: T): () => Promise<T> {
  return async () => value;
}

export async function unreadable(): Promise<never> {
  throw new Error("EACCES");
}

export function ip(address: string): IpAddress {
  return address as IpAddress;
}

const rightSysctls: Readonly<Record<string, string>> = {
  "net/ipv4/vs/conntrack": "1",
  "net/ipv4/vs/expire_nodest_conn": "1",
  "net/ipv4/vs/expire_quiescent_template": "1",
  "net/ipv4/ip_forward": "1",
  "net/ipv4/ip_local_port_range": "32768\t60999",
  "net/ipv4/vs/conn_reuse_mode": "1",
  "net/ipv4/vs/run_estimation": "1",
  "net/netfilter/nf_conntrack_count": "100",
  "net/netfilter/nf_conntrack_max": "1000",
};

/** Replaces correct settings with these. Undefined means that the kernel lacks the setting. */
export function sysctlsWith(changed: Readonly<Record<string, string | undefined>>): Node["sysctl"] {
  const all = new Map(Object.entries({ ...rightSysctls, ...changed }));
  return (path) => all.get(path);
}

const backend = { isInstalled: true, ruleCount: 0, leftoverChainCount: 0, hasPortals: false };

export function backendsWith(
  changed: {
    readonly legacy?: Partial<typeof backend>;
    readonly nft?: Partial<typeof backend>;
  } = {},
): Node["backends"] {
  return known({ legacy: { ...backend, ...changed.legacy }, nft: { ...backend, ...changed.nft } });
}

export const cluster: Cluster = {
  version: known({ server: "https://10.0.0.1:6443", version: "v1.36.2", aheadMs: 400 }),
  rights: known([{ resource: "services", verb: "list", isAllowed: true }]),
  otherNodes: known([{ name: "node-2", addresses: [ip("192.168.10.3")] }]),
  deadNodes: known([]),
  metalLb: known(undefined),
};

export function addressesWith(changed: Partial<AddressFacts> = {}): Node["addresses"] {
  return known({
    virtualIps: [ip("10.96.0.10")],
    own: [{ address: ip("192.168.10.2"), prefixLength: 24, link: "eth0" }],
    gateways: [ip("192.168.10.1")],
    clusterIps: [ip("10.96.0.10")],
    ...changed,
  });
}

/** A daemon of this version without conflicts. */
export function daemonWith(program: string): Node["daemon"] {
  return known({ conflicts: [], counts: { conflicts: 0 }, versions: { program } });
}

/** As flannel creates it. */
export const tunnel: TunnelFact = {
  ...{ name: "flannel.1", kind: "vxlan", mtuBytes: 1_450 },
  below: { name: "eth0", mtuBytes: 1_500 },
};

export function nodeWith(changed: Partial<Node> = {}): Node {
  return {
    kernelRelease: "6.1.0-13-amd64",
    cpuCount: 4,
    isBeforeInstall: false,
    mode: "ipvs",
    scheduler: "rr",
    strictARP: false,
    iptablesLocalhostNodePorts: true,
    isTunneling: false,
    rulesWriter: async () => "iptables",
    missingCapabilities: known([]),
    modules: known([
      { name: "ip_vs", state: "available" },
      { name: "ip_set", state: "available" },
      { name: "dummy", state: "loadable" },
    ]),
    schedulerProblem: known(undefined),
    sysctl: sysctlsWith({}),
    otherNamespaces: known([]),
    ipvs: known({ virtualServers: 10, realServers: 50, connections: 1_000 }),
    connTabBits: known(12),
    sets: known([]),
    backends: backendsWith(),
    nftTables: known([]),
    addresses: addressesWith(),
    tunnels: known([tunnel]),
    reversePath: known({ strictLinks: ["eth0"], droppedPackets: 0 }),
    tunnelForwarding: known({
      links: [],
      undelivered: [],
      connections: 0,
      unanswered: [],
      uplinks: new Map(),
    }),
    proxies: known({ isInstanceRunning: true, takenPorts: [10_249, 10_256] }),
    files: known({ limit: 1_048_576, open: 1_000, max: 100_000 }),
    mounts: known({ isContainer: false, isLockShared: true, modulesFolder: "/lib/modules/6.1.0" }),
    daemon: daemonWith(version),
    nodePorts: known([]),
    packets: known([]),
    cluster,
    ...changed,
  };
}

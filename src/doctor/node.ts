/** The interface through which checks read a node. Data is read when a check first needs it. */

import type { Status } from "../answer/answers.ts";
import type { Explanation } from "../answer/explanation.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { ObservedIpSet } from "../state/ip-set.ts";

/** `available` means loaded or built in; `loadable` means that modprobe finds the module. */
export type ModuleState = "available" | "loadable" | "missing" | "unknown";

export interface ModuleFact {
  readonly name: string;
  readonly state: ModuleState;
}

/** Another network namespace that has virtual servers. */
export interface OtherNamespace {
  /** A process in the namespace. */
  readonly pid: number;
  readonly command: string;
  readonly virtualServerCount: number;
}

export interface IpvsFigures {
  readonly virtualServers: number;
  readonly realServers: number;
  readonly connections: number;
}

/** One iptables backend. */
export interface BackendFact {
  readonly isInstalled: boolean;
  readonly ruleCount: number;
  /** Chains of kube-proxy's iptables mode. */
  readonly leftoverChainCount: number;
  /** Whether chains of userspace mode exist. */
  readonly hasPortals: boolean;
}

export interface AddressFacts {
  /** Addresses on kube-ipvs0. */
  readonly virtualIps: readonly IpAddress[];
  /** Addresses on all other links. `link` is the link's name. */
  readonly own: readonly {
    readonly address: IpAddress;
    readonly prefixLength: number;
    readonly link: string;
  }[];
  readonly gateways: readonly IpAddress[];
  /** Cluster IPs, from the ipset KUBE-CLUSTER-IP. */
  readonly clusterIps: readonly IpAddress[];
}

/** A tunnel between nodes that is up, and the link that carries its packets. */
export interface TunnelFact {
  readonly name: string;
  /** For example `vxlan`. */
  readonly kind: string;
  readonly mtuBytes: number;
  readonly below: { readonly name: string; readonly mtuBytes: number };
}

export interface ReversePathFacts {
  /** Links on which rp_filter is 1. */
  readonly strictLinks: readonly string[];
  /** Packets that rp_filter has dropped on any link since boot. */
  readonly droppedPackets: number;
}

export interface ForwardingFacts {
  /** Our links that receive tunneled packets. */
  readonly links: readonly string[];
  /** The links in `links` whose packets to other nodes' addresses are not delivered on this node. */
  readonly undelivered: readonly string[];
  /** Number of TCP connections that this node forwards through tunnels. */
  readonly connections: number;
  /** Nodes, as `ADDRESS:PORT`, with unanswered connections and no open ones. */
  readonly unanswered: readonly { readonly realServer: string; readonly connections: number }[];
  /** The link of each family's default route, for families that have one. */
  readonly uplinks: ReadonlyMap<IpFamily, { readonly name: string; readonly mtu: number }>;
}

export interface ProxyFacts {
  /** Describes a running kube-proxy: its process, or its answer on a port. Undefined if there is none. */
  readonly otherProxy?: string;
  /** Whether a process holds the instance lock, which means that kube-ipvs is running. */
  readonly isInstanceRunning: boolean;
  /** Configured health and metrics ports on which a process is listening. */
  readonly takenPorts: readonly number[];
}

export interface FileFacts {
  /** This process's soft limit on open files. */
  readonly limit: number;
  /** Number of open files in the whole system; `max` is its limit. */
  readonly open: number;
  readonly max: number;
}

export interface MountFacts {
  readonly isContainer: boolean;
  /** Folder with the running kernel's modules. Undefined if it does not exist. */
  readonly modulesFolder?: string;
  /** Whether this process uses the node's /run/xtables.lock: it is not in a container, or the file is mounted. */
  readonly isLockShared: boolean;
}

export interface RightFact {
  /** For example `services` or `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  readonly verb: string;
  readonly isAllowed: boolean;
}

export interface OtherNode {
  readonly name: string;
  readonly addresses: readonly IpAddress[];
}

/** A Node that is not ready, although EndpointSlices list endpoints on it as ready. */
export interface DeadNode {
  readonly name: string;
  readonly readyEndpoints: number;
  /** Services of these endpoints: `default/web`. */
  readonly services: readonly string[];
}

/** Reads the cluster. Each method can fail independently. */
export interface Cluster {
  /** `aheadMs` is how far this node's clock is ahead of the API server's. */
  readonly version: () => Promise<{
    readonly server: string;
    readonly version: string;
    readonly aheadMs: number;
  }>;
  readonly rights: () => Promise<readonly RightFact[]>;
  readonly otherNodes: () => Promise<readonly OtherNode[]>;
  /** Nodes that are not ready but have ready endpoints, according to the API server. */
  readonly deadNodes: () => Promise<readonly DeadNode[]>;
  /** How MetalLB was detected. Undefined if it was not detected. */
  readonly metalLb: () => Promise<MetalLbFact | undefined>;
}

export interface MetalLbFact {
  readonly evidence: string;
  /** The Service that the evidence names. */
  readonly service?: string;
}

/** The answers of this node's daemon. */
export interface DaemonFacts extends Pick<Status, "conflicts"> {
  readonly versions: Pick<Status["versions"], "program">;
  readonly counts: Pick<Status["counts"], "conflicts">;
}

/** Facts about the node whose reading cannot fail. */
export interface Host extends Pick<Config, "mode" | "scheduler" | "strictARP"> {
  /** Whether node ports are served at 127.0.0.1 in iptables mode. */
  readonly iptablesLocalhostNodePorts: boolean;
  /** The kernel release from uname: `6.1.0-13-amd64`. */
  readonly kernelRelease: string;
  /** Whether `kubeIpvs.tunnelForwarding` is on. */
  readonly isTunneling: boolean;
  readonly cpuCount: number;
  readonly isBeforeInstall: boolean;
}

type Answer<T> = T | Promise<T>;

export interface Node extends Host {
  /** Names of required capabilities that this process lacks. */
  readonly missingCapabilities: () => Answer<readonly string[]>;
  readonly modules: () => Promise<readonly ModuleFact[]>;
  /** How the daemon writes rules, or would write them if it ran. */
  readonly rulesWriter: () => Promise<"iptables" | "nftables">;
  /** Why the scheduler cannot be used. Undefined if it can. */
  readonly schedulerProblem: () => Promise<string | undefined>;
  /** Reads a path under /proc/sys. Undefined if the kernel does not have the setting or its module is not loaded. */
  readonly sysctl: (path: string) => string | undefined;
  readonly otherNamespaces: () => Answer<readonly OtherNamespace[]>;
  readonly ipvs: () => Promise<IpvsFigures>;
  /** The module parameter conn_tab_bits. */
  readonly connTabBits: () => Answer<number>;
  readonly sets: () => Promise<readonly ObservedIpSet[]>;
  readonly backends: () => Promise<Readonly<Record<"legacy" | "nft", BackendFact>>>;
  /** Tables of kube-proxy's nftables mode: `ip kube-proxy`. */
  readonly nftTables: () => Promise<readonly string[]>;
  readonly addresses: () => Promise<AddressFacts>;
  readonly reversePath: () => Answer<ReversePathFacts>;
  readonly tunnels: () => Promise<readonly TunnelFact[]>;
  readonly tunnelForwarding: () => Promise<ForwardingFacts>;
  readonly proxies: () => Promise<ProxyFacts>;
  readonly files: () => Answer<FileFacts>;
  readonly mounts: () => Answer<MountFacts>;
  /** `skipped` is the reason why no daemon answers. */
  readonly daemon: () => Promise<DaemonFacts | { readonly skipped: string }>;
  /** The node ports of Services. Empty without a daemon. */
  readonly nodePorts: () => Promise<readonly number[]>;
  /** Traces packets to a sample of Services through the plan and the kernel. */
  readonly packets: () => Promise<readonly Explanation[]>;
  /** `skipped` is the reason why the API server is not checked. */
  readonly cluster: Cluster | { readonly skipped: string };
}

/** The state of ip_vs. If modules cannot be read, assumes that it is available. Each check then reports its own error. */
export async function ipvsStateOf({ modules }: Pick<Node, "modules">): Promise<ModuleState> {
  const all = await modules().catch(() => []);
  return all.find(({ name }) => name === "ip_vs")?.state ?? "available";
}

/** Whether ip_vs is loaded or built in, or modprobe finds it. */
export async function isIpvsAvailable(node: Pick<Node, "modules">): Promise<boolean> {
  return ["available", "loadable"].includes(await ipvsStateOf(node));
}

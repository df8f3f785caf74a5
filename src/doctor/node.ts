/** What checks ask of a node. Each answer is read when a check first asks for it. */

import type { Status } from "../answer/answers.ts";
import type { IpAddress } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { ObservedIpSet } from "../state/ip-set.ts";

/** `available`: loaded or built in; `loadable`: modprobe finds it. */
export type ModuleState = "available" | "loadable" | "missing" | "unknown";

export interface ModuleFact {
  readonly name: string;
  readonly state: ModuleState;
}

/** IPVS in use in another network namespace. */
export interface OtherNamespace {
  /** A process in it. */
  readonly pid: number;
  readonly command: string;
  readonly virtualServerCount: number;
}

export interface IpvsFigures {
  readonly virtualServers: number;
  readonly realServers: number;
  readonly connections: number;
}

/** One backend of iptables. */
export interface BackendFact {
  readonly isInstalled: boolean;
  readonly ruleCount: number;
  /** Chains of kube-proxy's iptables mode. */
  readonly leftoverChainCount: number;
  /** Chains of userspace mode. */
  readonly hasPortals: boolean;
}

export interface AddressFacts {
  /** On kube-ipvs0. */
  readonly virtualIps: readonly IpAddress[];
  /** On all other links. */
  readonly own: readonly { readonly address: IpAddress; readonly prefixLength: number }[];
  readonly gateways: readonly IpAddress[];
  /** From the set KUBE-CLUSTER-IP. */
  readonly clusterIps: readonly IpAddress[];
}

export interface ProxyFacts {
  /** A kube-proxy: process or answer on its port, in words. */
  readonly otherProxy?: string;
  /** A process holds the instance lock, so a kube-ipvs runs. */
  readonly isInstanceRunning: boolean;
  /** The health and metrics ports on which a process listens. */
  readonly takenPorts: readonly number[];
}

export interface FileFacts {
  /** Soft limit of open files of this process. */
  readonly limit: number;
  /** Open files of the whole system. */
  readonly open: number;
  readonly max: number;
}

export interface MountFacts {
  readonly isContainer: boolean;
  /** Modules of the running kernel. Undefined if the folder does not exist. */
  readonly modulesFolder?: string;
  /** This process sees the node's /run/xtables.lock: it is not in a container, or the file is mounted. */
  readonly isLockShared: boolean;
}

export interface RightFact {
  /** `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  readonly verb: string;
  readonly isAllowed: boolean;
}

export interface OtherNode {
  readonly name: string;
  readonly addresses: readonly IpAddress[];
}

/** Each part can fail on its own. */
export interface Cluster {
  /** `aheadMs`: milliseconds by which the clock of this node is ahead of the server's. */
  readonly version: () => Promise<{
    readonly server: string;
    readonly version: string;
    readonly aheadMs: number;
  }>;
  readonly rights: () => Promise<readonly RightFact[]>;
  readonly otherNodes: () => Promise<readonly OtherNode[]>;
  /** How MetalLB was seen. Undefined if it was not. */
  readonly metalLb: () => Promise<string | undefined>;
}

/** What the kube-ipvs of this node answers. */
export interface DaemonFacts extends Pick<Status, "conflicts"> {
  readonly counts: Pick<Status["counts"], "conflicts">;
}

/** What is known without reading anything that can fail. */
export interface Host extends Pick<Config, "mode" | "scheduler" | "isStrictArp"> {
  /** The release that uname shows: `6.1.0-13-amd64`. */
  readonly kernelRelease: string;
  readonly cpuCount: number;
  readonly isBeforeInstall: boolean;
}

type Answer<T> = T | Promise<T>;

export interface Node extends Host {
  /** Names of required capabilities that this process lacks. */
  readonly missingCapabilities: () => Answer<readonly string[]>;
  readonly modules: () => Promise<readonly ModuleFact[]>;
  /** What is missing for the scheduler. Undefined if nothing is. */
  readonly schedulerProblem: () => Promise<string | undefined>;
  /** By path under /proc/sys. Undefined if the kernel has no such setting, or its module is not loaded. */
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
  readonly proxies: () => Promise<ProxyFacts>;
  readonly files: () => Answer<FileFacts>;
  readonly mounts: () => Answer<MountFacts>;
  /** `skipped` is the reason why no kube-ipvs answers. */
  readonly daemon: () => Promise<DaemonFacts | { readonly skipped: string }>;
  /** `skipped` is the reason why no API server is asked. */
  readonly cluster: Cluster | { readonly skipped: string };
}

/** If the modules cannot be read, IPVS is assumed to be available, and each check says what it cannot read. */
export async function ipvsStateOf({ modules }: Pick<Node, "modules">): Promise<ModuleState> {
  const all = await modules().catch(() => []);
  return all.find(({ name }) => name === "ip_vs")?.state ?? "available";
}

/** It is loaded or built in, or modprobe finds it. */
export async function isIpvsAvailable(node: Pick<Node, "modules">): Promise<boolean> {
  return ["available", "loadable"].includes(await ipvsStateOf(node));
}

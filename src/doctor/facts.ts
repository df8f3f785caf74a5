/** What the readers find on a node. Plain values: the judgements need nothing else. */
import { errorText } from "../base/error-text.ts";
import type { IpAddress } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import type { Status } from "../daemon/operator/answers.ts";
import type { ObservedIpSet } from "../state/ip-set.ts";
import type { Judgement } from "./check.ts";

/** A value, or why it could not be read. */
export type Fact<T> = { readonly value: T } | { readonly unreadable: string };

/** What `read` gives, or why it failed: one thing that cannot be read must not hide the others. */
export async function factOf<T>(read: () => T | Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await read() };
  } catch (error) {
    return { unreadable: errorText(error) };
  }
}

/** Judges a fact that is known; one that is not is `unknown`. */
export function judging<T>(fact: Fact<T>, judge: (value: T) => Judgement): Judgement {
  if ("value" in fact) return judge(fact.value);
  return { verdict: "unknown", evidence: fact.unreadable };
}

/** `available`: loaded or built in; `loadable`: modprobe finds it. */
export type ModuleState = "available" | "loadable" | "missing" | "unknown";

export interface ModuleFact {
  readonly name: string;
  readonly state: ModuleState;
}

/** If the modules could not be read, IPVS is taken for available, and each check says what it cannot read. */
export function ipvsStateOf({ modules }: Pick<NodeFacts, "modules">): ModuleState {
  const all = "value" in modules ? modules.value : [];
  return all.find(({ name }) => name === "ip_vs")?.state ?? "available";
}

/** It is loaded or built in, or modprobe finds it. */
export function isIpvsAvailable(facts: Pick<NodeFacts, "modules">): boolean {
  const state = ipvsStateOf(facts);
  return state === "available" || state === "loadable";
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
  /** Chains of kube-proxy's mode iptables. */
  readonly leftoverChainCount: number;
  /** Chains of mode userspace. */
  readonly hasPortals: boolean;
}

export interface AddressFacts {
  /** On kube-ipvs0. */
  readonly virtualIps: readonly IpAddress[];
  /** On all other links. */
  readonly own: readonly { readonly address: IpAddress; readonly prefixLength: number }[];
  readonly gateways: readonly IpAddress[];
  /** Of the set KUBE-CLUSTER-IP. */
  readonly clusterIps: readonly IpAddress[];
}

export interface ProxyFacts {
  /** A kube-proxy: process or answer on its port, in words. */
  readonly otherProxy?: string;
  /** Someone holds the instance lock: a kube-ipvs runs. */
  readonly isInstanceRunning: boolean;
  /** Of the health and metrics ports, those that someone listens on. */
  readonly takenPorts: readonly number[];
}

export interface FileFacts {
  /** Soft limit of open files of this process. */
  readonly limit: number;
  /** Of the whole system. */
  readonly open: number;
  readonly max: number;
}

export interface MountFacts {
  readonly isContainer: boolean;
  /** Of the running kernel; absent: there is none. */
  readonly modulesFolder?: string;
  /** The node's /run/xtables.lock is seen: we are not in a container, or it is mounted. */
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

/** What an API server answers; each part may be unreadable on its own. */
export interface ClusterFacts {
  /** The server's version, and the milliseconds by which our clock is ahead of its. */
  readonly version: Fact<{
    readonly server: string;
    readonly version: string;
    readonly aheadMs: number;
  }>;
  readonly rights: Fact<readonly RightFact[]>;
  readonly otherNodes: Fact<readonly OtherNode[]>;
  /** How MetalLB was seen; undefined: it was not. */
  readonly metalLb: Fact<string | undefined>;
}

/** What a kube-ipvs on this node answers. */
export interface DaemonFacts extends Pick<Status, "conflicts"> {
  readonly counts: Pick<Status["counts"], "conflicts">;
}

export interface NodeFacts {
  /** uname release: `6.1.0-13-amd64`. */
  readonly kernelRelease: string;
  readonly cpuCount: number;
  readonly isBeforeInstall: boolean;
  /** As the configuration says. */
  readonly mode: Config["mode"];
  readonly scheduler: string;
  readonly isStrictArp: boolean;
  /** Names of capabilities that are needed and absent. */
  readonly missingCapabilities: Fact<readonly string[]>;
  readonly modules: Fact<readonly ModuleFact[]>;
  /** Undefined: the scheduler is there; otherwise what is missing. */
  readonly schedulerProblem: Fact<string | undefined>;
  /** By path under /proc/sys; absent: the kernel has no such setting, or its module is not loaded. */
  readonly sysctls: ReadonlyMap<string, string>;
  readonly otherNamespaces: Fact<readonly OtherNamespace[]>;
  readonly ipvs: Fact<IpvsFigures>;
  /** The module parameter conn_tab_bits. */
  readonly connTabBits: Fact<number>;
  readonly sets: Fact<readonly ObservedIpSet[]>;
  readonly backends: Fact<{ readonly legacy: BackendFact; readonly nft: BackendFact }>;
  /** Of kube-proxy's mode nftables: `ip kube-proxy`. */
  readonly nftTables: Fact<readonly string[]>;
  readonly addresses: Fact<AddressFacts>;
  readonly proxies: Fact<ProxyFacts>;
  readonly files: Fact<FileFacts>;
  readonly mounts: Fact<MountFacts>;
  /** Or why nobody answers. */
  readonly daemon: Fact<DaemonFacts> | { readonly skipped: string };
  /** Or why nothing is asked of an API server. */
  readonly cluster: ClusterFacts | { readonly skipped: string };
}

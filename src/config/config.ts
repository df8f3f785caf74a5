import type { Cidr, IpAddress } from "../base/ip.ts";
import type { SchedulerFlag } from "../base/scheduler.ts";
import type { GateValues } from "./feature-gates.ts";

/** Where Services and EndpointSlices come from. */
export type ObjectsFrom =
  /** YAML and JSON files of a folder; no cluster needed. */
  | { readonly kind: "manifests"; readonly folder: string }
  /** An API server. Neither path nor URL: the credentials of the pod we run in. */
  | { readonly kind: "cluster"; readonly kubeconfigPath?: string; readonly masterUrl?: string };

/** How traffic of this node's pods is distinguished from other traffic (detectLocalMode). */
export type LocalTraffic =
  /** At most one network of each family; none: pod traffic cannot be distinguished. */
  | { readonly kind: "cluster-cidr"; readonly cidrs: readonly Cidr[] }
  /** The pod networks of the Node object. */
  | { readonly kind: "node-cidr" }
  | { readonly kind: "bridge-interface"; readonly name: string }
  | { readonly kind: "interface-prefix"; readonly prefix: string };

/** Which addresses of the node serve node ports. */
export type NodePortAddresses =
  | { readonly kind: "all" }
  /** The node's addresses as the Node object has them. */
  | { readonly kind: "primary" }
  | { readonly kind: "cidrs"; readonly cidrs: readonly Cidr[] };

/** Where a server listens; the unspecified address means every address of both families. */
export interface ListenAddress {
  readonly address: IpAddress;
  readonly port: number;
}

/** How Services are served. */
export type ProxyMode = "ipvs" | "iptables" | "userspace";

/** All settings of the program, from file, flags and defaults; validated and frozen. */
export interface Config {
  readonly mode: ProxyMode;
  readonly objectsFrom: ObjectsFrom;
  /** How often the API server is asked. */
  readonly requestRate: { readonly qps: number; readonly burst: number };
  /** Name of our Node object: trimmed, lower case. */
  readonly nodeName: string;
  /** Not a listening address: it replaces the node's primary address. Unspecified: ask the Node object. */
  readonly bindAddress: IpAddress;
  /** Undefined without a health server. */
  readonly healthzBindAddress?: ListenAddress;
  readonly metricsBindAddress: ListenAddress;
  /** A port that cannot be opened ends the program instead of being retried. */
  readonly isBindFailureFatal: boolean;
  /** Debug handlers on the metrics address. */
  readonly isProfilingEnabled: boolean;
  readonly localTraffic: LocalTraffic;
  readonly nodePortAddresses: NodePortAddresses;
  /** Name of the IPVS scheduler, as in `ipvsadm -s`. Whether the kernel has it is seen at start. */
  readonly scheduler: string;
  /** Schedulers that annotations may name besides those of Linux and {@link scheduler}. */
  readonly extraSchedulers: readonly string[];
  /** What counts for Services whose annotations say nothing else. */
  readonly tuning: {
    /** If undefined, kube-proxy's behavior applies. */
    readonly schedulerFlags?: readonly SchedulerFlag[];
    /** UDP: each datagram is scheduled alone. */
    readonly isOnePacket: boolean;
    /** No new connections from `upper` on; 0: no limit. */
    readonly connectionLimit: { readonly upper: number; readonly lower: number };
    /** Where the weights of endpoints come from. */
    readonly weights: "equal" | "node" | "slice";
    /** How long a new endpoint's weight grows; 0: not at all. */
    readonly slowStartMs: number;
  };
  /** Limits on what a Service and a whole namespace may request. */
  readonly limits: Limits;
  /** Virtual servers in these networks are never removed. */
  readonly excludeCidrs: readonly Cidr[];
  /** Virtual servers that nobody of ours made: `keep` leaves them, `delete` is what kube-proxy does. */
  readonly foreignVirtualServers: "keep" | "delete";
  readonly isStrictArp: boolean;
  /** Timeouts of IPVS connections, as `ipvsadm --set`; 0 leaves the kernel's value. */
  readonly ipvsTimeouts: {
    readonly tcpSeconds: number;
    readonly tcpFinSeconds: number;
    readonly udpSeconds: number;
  };
  readonly isMasqueradeAll: boolean;
  /** The mark as a number with one bit set: 0x4000 for the default bit 14. */
  readonly masqueradeMark: number;
  /** iptables mode: node ports answer on IPv4 loopback addresses, which needs route_localnet. */
  readonly servesLoopbackNodePorts: boolean;
  /** Longest time without a sync. */
  readonly syncPeriodMs: number;
  /** Shortest pause between two syncs. */
  readonly minSyncPeriodMs: number;
  /** Longest time without comparing the whole kernel state with what is wanted. */
  readonly verificationPeriodMs: number;
  /** Userspace mode: a UDP client that is quiet for so long may get another endpoint. */
  readonly udpTimeoutMs: number;
  /** Userspace mode: the most TCP connections and UDP clients, of all Services and of one. */
  readonly userspaceConnections: { readonly total: number; readonly perService: number };
  /** How long a removed endpoint may keep its connections. TCP (and SCTP) 0: no limit; UDP 0: cut at once. */
  readonly drain: { readonly tcpDeadlineSeconds: number; readonly udpDeadlineSeconds: number };
  /** File that carries drains, ownership and modes over a restart; empty: none. */
  readonly statePath: string;
  /** Pause between two checks of our rules; 0: only full syncs check. */
  readonly ruleCheckPeriodMs: number;
  /** A list that would take away more percent of what is known must be confirmed; 0: none must. */
  readonly listGuardPercent: number;
  /** Nothing in the kernel is changed; what would be is reported. */
  readonly isObserveOnly: boolean;
  /** A weight that a third party gave to a real server of ours: `keep` is what kube-proxy does. */
  readonly manualWeights: "keep" | "repair";
  /** Where a setting improves on kube-proxy. */
  readonly edges: {
    readonly isPingAnswered: boolean;
    readonly isNodeMasqueraded: boolean;
    readonly areSourceRangesStrict: boolean;
  };
  /** TCP node ports are served on the loopback addresses too. */
  readonly areNodePortsOnLocalhost: boolean;
  /** IPVS' estimator; what is absent stays as the node has it. */
  readonly estimator: {
    readonly isRunning?: boolean;
    /** `0-3,8` */
    readonly cpuList?: string;
    readonly nice?: number;
  };
  /** Traffic on /metrics; absent: none. */
  readonly trafficMetrics?: {
    readonly hasEndpoints: boolean;
    /** Service ports, and endpoints, with series of their own. */
    readonly limit: number;
  };
  /**
   * External and load-balancer IPs that must not be bound to kube-ipvs0: `serve` gives them their virtual server;
   * `refuse` gives them nothing at all.
   */
  readonly reservedAddresses: "serve" | "refuse";
  /** Node addresses at ports where a process of the node listens, as external or load-balancer IPs of new claims. */
  readonly nodeProcessPorts: "refuse" | "serve";
  /** File that carries the age of claims over restarts and boots; empty: none. */
  readonly claimsPath: string;
  /** Sysctls under net/netfilter. 0 leaves the kernel's value. */
  readonly conntrack: {
    readonly maxPerCore: number;
    readonly min: number;
    readonly tcpEstablishedSeconds: number;
    readonly tcpCloseWaitSeconds: number;
    readonly udpSeconds: number;
    readonly udpStreamSeconds: number;
    readonly isTcpLiberal: boolean;
  };
  /** -1000 to 1000. */
  readonly oomScoreAdj: number;
  readonly logging: { readonly format: LogFormat; readonly verbosity: number };
  /** Values of the gates in `feature-gates.ts`. */
  readonly featureGates: GateValues;
  /** A changed configuration file is applied instead of ending the program. */
  readonly isConfigReloaded: boolean;
  /** Start even if a kube-proxy runs on this node. */
  readonly isOtherProxyAllowed: boolean;
  /** If a kube-proxy runs on this node, wait until it is gone instead of failing. */
  readonly waitsForKubeProxy: boolean;
  /** How IPv4 virtual IPs become local: on kube-ipvs0, or by routes to it. */
  readonly virtualAddresses: "addresses" | "routes";
  /** Shortest pause between two readings of all Nodes' addresses; 0: never read. */
  readonly nodeAddressPeriodMs: number;
  /** What kube-proxy's iptables mode left is removed when the first sync ended. */
  readonly isLeftoverRemoved: boolean;
  /** Instances with the same name in one network namespace exclude each other. */
  readonly lockName: string;
  /** Unix socket on which operators' questions are answered; empty: none. */
  readonly operatorSocketPath: string;
  /** Serve the Services that name this proxy, and no others; absent: those that name none. */
  readonly serviceProxyName?: string;
}

/** Frontends are addresses with a port; endpoints count once for each frontend. Infinity: no limit. */
export interface Limits {
  readonly service: { readonly frontends: number; readonly endpoints: number };
  readonly namespace: { readonly frontends: number; readonly endpoints: number };
}

export type LogFormat = "text" | "json";

/** What the command line asks for. */
export type Command = "run" | "clean-up" | "init-only" | "write-config" | "subcommand";

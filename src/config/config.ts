import type { Cidr, IpAddress } from "../base/ip.ts";
import type { SchedulerFlag } from "../base/scheduler.ts";
import type { GateValues } from "./feature-gates.ts";
import type { OwnSettings } from "./fields.ts";

/** Where Services and EndpointSlices come from. */
export type ObjectsFrom =
  /** YAML and JSON files in a folder, without a cluster. */
  | { readonly kind: "manifests"; readonly folder: string }
  /** An API server. If neither path nor URL is set, the program uses the credentials of its pod. */
  | { readonly kind: "cluster"; readonly kubeconfigPath?: string; readonly masterUrl?: string };

/** How traffic from this node's pods is distinguished from other traffic (detectLocalMode). */
export type LocalTraffic =
  /** At most one network per family. If the list is empty, pod traffic cannot be distinguished. */
  | { readonly kind: "cluster-cidr"; readonly cidrs: readonly Cidr[] }
  /** The pod CIDRs of the Node object. */
  | { readonly kind: "node-cidr" }
  | { readonly kind: "bridge-interface"; readonly name: string }
  | { readonly kind: "interface-prefix"; readonly prefix: string };

/** Which addresses of the node serve node ports. */
export type NodePortAddresses =
  | { readonly kind: "all" }
  /** The primary addresses of the node, from its Node object. */
  | { readonly kind: "primary" }
  | { readonly kind: "cidrs"; readonly cidrs: readonly Cidr[] };

/** The address and port of a server. The unspecified address means all addresses of both families. */
export interface ListenAddress {
  readonly address: IpAddress;
  readonly port: number;
}

export type ProxyMode = "ipvs" | "iptables" | "userspace";

/**
 * All settings of the program, from file, flags and defaults; validated and frozen. A property has the public name of its
 * setting, followed by the unit. Properties that combine or split settings have other names.
 */
export interface Config
  extends Omit<OwnSettings, "portRangeMarks" | "schedulerFlags" | "serviceProxyName"> {
  readonly mode: ProxyMode;
  readonly objectsFrom: ObjectsFrom;
  /** Rate limit for requests to the API server. */
  readonly clientConnection: { readonly qps: number; readonly burst: number };
  /** Name of this node's Node object, trimmed and in lower case. */
  readonly nodeName: string;
  /**
   * The node's primary address; not a listening address. If unspecified (0.0.0.0 or ::), the Node object provides it.
   */
  readonly bindAddress: IpAddress;
  /** Undefined if the health server is disabled. */
  readonly healthzBindAddress?: ListenAddress;
  readonly metricsBindAddress: ListenAddress;
  /** A second metrics server, with TLS and authorization by the API server. Undefined if it is disabled. */
  readonly secureMetrics?: {
    readonly address: ListenAddress;
    readonly certFile: string;
    readonly keyFile: string;
  };
  /** Whether the program exits instead of retrying if it cannot open a port. */
  readonly bindAddressHardFail: boolean;
  /** Whether the metrics address serves debug handlers. */
  readonly enableProfiling: boolean;
  readonly detectLocal: LocalTraffic;
  readonly nodePortAddresses: NodePortAddresses;
  /** Name of the IPVS scheduler, as in `ipvsadm -s`. The program checks at startup whether the kernel has it. */
  readonly scheduler: string;
  /** Default for Services whose annotations do not override it. If undefined, kube-proxy's behavior applies. */
  readonly schedulerFlags?: readonly SchedulerFlag[];
  /** Limits on what a Service and a whole namespace may request. */
  readonly limits: Limits;
  /** Virtual servers in these networks are never removed. */
  readonly excludeCIDRs: readonly Cidr[];
  readonly strictARP: boolean;
  /** Timeouts of IPVS connections, as with `ipvsadm --set`; 0 keeps the kernel's value. */
  readonly ipvsTimeouts: {
    readonly tcpSeconds: number;
    readonly tcpFinSeconds: number;
    readonly udpSeconds: number;
  };
  readonly masqueradeAll: boolean;
  /** The packet mark, a number with a single bit set: 0x4000 for the default bit 14. */
  readonly masqueradeMark: number;
  /** Mask of the packet marks of port ranges. Undefined if port ranges are not served. */
  readonly portRangeMarks?: number;
  /** iptables mode: whether node ports are served on IPv4 loopback addresses, which requires route_localnet. */
  readonly iptablesLocalhostNodePorts: boolean;
  /** Maximum interval between two syncs. */
  readonly syncPeriodMs: number;
  /** Minimum interval between two syncs. */
  readonly minSyncPeriodMs: number;
  /** How long a removed endpoint keeps its connections. 0 means no limit for TCP and SCTP, and no drain for UDP. */
  readonly drain: { readonly tcpDeadlineSeconds: number; readonly udpDeadlineSeconds: number };
  /** Sysctls under net/netfilter; 0 keeps the kernel's value. */
  readonly conntrack: {
    readonly maxPerCore: number;
    readonly min: number;
    readonly tcpEstablishedTimeoutSeconds: number;
    readonly tcpCloseWaitTimeoutSeconds: number;
    readonly udpTimeoutSeconds: number;
    readonly udpStreamTimeoutSeconds: number;
    readonly tcpBeLiberal: boolean;
  };
  /** The process's OOM score adjustment, from -1000 to 1000. */
  readonly oomScoreAdj: number;
  readonly logging: { readonly format: LogFormat; readonly verbosity: number };
  /** Values of all gates in `feature-gates.ts`. */
  readonly featureGates: GateValues;
  /**
   * Serve only Services whose service-proxy-name label has this value. If undefined, only Services without the label.
   */
  readonly serviceProxyName?: string;
}

/** A frontend is an address with a port. Endpoints count once per frontend. Infinity means no limit. */
export interface Limits {
  readonly service: { readonly frontends: number; readonly endpoints: number };
  readonly namespace: { readonly frontends: number; readonly endpoints: number };
}

export type LogFormat = "text" | "json";

/** The action that the command line selects. */
export type Command = "run" | "clean-up" | "init-only" | "write-config" | "subcommand";

/** Whether an API server is configured, or this process runs in a pod. */
export function hasApiServer(
  { objectsFrom }: Pick<Config, "objectsFrom">,
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  const { kubeconfigPath, masterUrl } = objectsFrom.kind === "cluster" ? objectsFrom : {};
  return (kubeconfigPath ?? masterUrl ?? environment["KUBERNETES_SERVICE_HOST"]) !== undefined;
}

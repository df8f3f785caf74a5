import type { HostPort, IpAddress, IpFamily } from "../base/ip.ts";
import type { Networks } from "../base/networks.ts";
import type { NodePlace } from "../model/topology.ts";
import type { Tuning } from "../model/tuning.ts";

/** How traffic from this node's pods is recognized. Undefined if it cannot be distinguished. */
export type LocalDetector =
  /** The source address is in this network. */
  | { readonly kind: "source"; readonly cidr: string }
  /** The input interface has this name. A trailing `+` matches any suffix. */
  | { readonly kind: "in-interface"; readonly name: string };

/** Why an address must not be bound to kube-ipvs0. Logs and metrics use the same words. */
export type ReservedReason =
  | "node-address"
  | "gateway-address"
  | "broadcast-address"
  | "api-server-address"
  | "other-node-address"
  | "pod-address"
  | "node-process-port"
  | "link-local-address";

/** Opt-in settings that deviate from kube-proxy's IPVS mode. */
export interface EdgeOptions {
  /** Whether addresses on kube-ipvs0 answer ICMP echo requests. */
  readonly answerPing: boolean;
  /**
   * Whether the node's own connections to addresses with externalTrafficPolicy Local are masqueraded, so that replies
   * from endpoints on other nodes return to this node.
   */
  readonly masqueradeNodeToLocal: boolean;
  /** Whether source ranges also apply to node ports, and to all connections from the node itself. */
  readonly strictSourceRanges: boolean;
}

/** Planning input for one IP family. */
export interface FamilyOptions {
  /** This node's address as the cluster knows it. A source range that contains this address admits the node itself. */
  readonly nodeIp: IpAddress;
  /** Addresses on links other than kube-ipvs0. A virtual IP among them is not also bound to kube-ipvs0. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /** Addresses of other hosts that this node must be able to reach. Undefined if none are known. */
  readonly reserved?: ReadonlyMap<IpAddress, ReservedReason>;
  /** Networks from which Nodes allocate pod addresses. Undefined if none are known. */
  readonly podNetworks?: Networks;
  /**
   * The API servers. A virtual server there would capture the node's own connections to the API server. Undefined if
   * none are known.
   */
  readonly apiServers?: readonly HostPort[];
  /** Whether the kernel rejects all addresses of this family on kube-ipvs0. Everything else is still served. */
  readonly isLinkDisabled?: boolean;
  /** Whether reserved external and load-balancer IPs are not served at all, not even by a virtual server. */
  readonly isReservedRefused?: boolean;
  /** Networks of virtual IPs that other software on the node may have on its own link. Undefined if there are none. */
  readonly unboundNetworks?: Networks;
  /** Addresses that serve node ports. If empty, this family has no node ports. */
  readonly nodePortAddresses: readonly IpAddress[];
  readonly localDetector?: LocalDetector;
  /** If undefined, kube-proxy's behavior applies. */
  readonly edges?: EdgeOptions;
}

/** All planning input other than Services and endpoints, as plain values. A new object causes a complete replan. */
export interface PlanOptions {
  readonly place: NodePlace;
  /** The families that the node supports. */
  readonly families: ReadonlyMap<IpFamily, FamilyOptions>;
  readonly scheduler: string;
  /** Schedulers that Services may request in addition to Linux's own. None if undefined. */
  readonly extraSchedulers?: readonly string[];
  /**
   * Default tuning, apart from the scheduler, for Services whose annotations do not override it. If undefined,
   * kube-proxy's behavior applies.
   */
  readonly tuning?: Partial<Omit<Tuning, "scheduler">>;
  /** Whether this node asks endpoints for their weights. False if undefined. */
  readonly areWeightsRequested?: boolean;
  /** Whether the feature gate AllowServiceExternalIPs is off. Services are then planned without their external IPs. */
  readonly areExternalIpsIgnored?: boolean;
  readonly masqueradeAll: boolean;
  /** The mark bit as a number: 0x4000 for the default bit 14. */
  readonly masqueradeMark: number;
  /** Mask of the packet marks for port ranges. If undefined, port ranges are not served. */
  readonly portRangeMarks?: number;
  /** Undefined if tunnel forwarding is off. `problem` explains why it cannot be used. */
  readonly tunnels?: { readonly problem?: string };
}

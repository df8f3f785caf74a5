import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Networks } from "../base/networks.ts";
import type { NodePlace } from "../model/topology.ts";
import type { Tuning } from "../model/tuning.ts";

/** How pod traffic of this node is recognized; absent when it cannot be distinguished. */
export type LocalDetector =
  /** By source network, text form. */
  | { readonly kind: "source"; readonly cidr: string }
  /** By input interface: a name, or a prefix with `+` at its end. */
  | { readonly kind: "in-interface"; readonly name: string };

/** Why an address must not be bound to kube-ipvs0; the same words in log and metric. */
export type ReservedReason =
  | "node-address"
  | "gateway-address"
  | "broadcast-address"
  | "api-server-address"
  | "other-node-address"
  | "pod-address"
  | "node-process-port"
  | "link-local-address";

/** Where kube-proxy's IPVS mode leaves something to be wished, and a setting says otherwise. */
export interface EdgeOptions {
  /** Addresses on kube-ipvs0 answer an echo request. */
  readonly isPingAnswered: boolean;
  /** The node's own connections to addresses with external policy Local are masqueraded: other nodes' endpoints answer them. */
  readonly isNodeMasqueraded: boolean;
  /** Source ranges hold for node ports, and for the node whatever address it connects from. */
  readonly areSourceRangesStrict: boolean;
}

/** What planning must know of one IP family. */
export interface FamilyOptions {
  /** This node's address as the cluster knows it; decides whether source ranges admit the node itself. */
  readonly nodeIp: IpAddress;
  /** Addresses on links other than kube-ipvs0: a virtual IP among them is not bound a second time. */
  readonly nodeAddresses: ReadonlySet<IpAddress>;
  /** Addresses of others that the node cannot do without. Undefined if none are known. */
  readonly reserved?: ReadonlyMap<IpAddress, ReservedReason>;
  /** Those that Nodes take their pods' addresses from. Undefined if none are known. */
  readonly podNetworks?: Networks;
  /** `10.0.0.1 6443` of each API server: no virtual server may take the node's own way there. Undefined if none are known. */
  readonly apiServers?: readonly string[];
  /** The kernel takes no address of this family on kube-ipvs0; everything else is served. */
  readonly isLinkDisabled?: boolean;
  /** External and load-balancer IPs that are reserved get nothing, not even a virtual server. */
  readonly isReservedRefused?: boolean;
  /** Addresses that serve node ports; empty: node ports are not served in this family. */
  readonly nodePortAddresses: readonly IpAddress[];
  readonly localDetector?: LocalDetector;
  /** If undefined, kube-proxy's behavior applies. */
  readonly edges?: EdgeOptions;
}

/** Everything planning needs besides Services and endpoints. Plain values; a new one plans everything again. */
export interface PlanOptions {
  readonly place: NodePlace;
  /** The families that the node supports. */
  readonly families: ReadonlyMap<IpFamily, FamilyOptions>;
  readonly scheduler: string;
  /** Schedulers that Services may name besides Linux's; absent: none. */
  readonly extraSchedulers?: readonly string[];
  /** What counts for Services that say nothing else, beside the scheduler; absent: as kube-proxy. */
  readonly tuning?: Partial<Omit<Tuning, "scheduler">>;
  /** The feature gate AllowServiceExternalIPs is off: Services are planned as if they had none. */
  readonly areExternalIpsIgnored?: boolean;
  readonly isMasqueradeAll: boolean;
  /** The mark bit as a number: 0x4000 for the default bit 14. */
  readonly masqueradeMark: number;
}

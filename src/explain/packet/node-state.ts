import type { ListenerFact } from "../../answer/answers.ts";
import { type IpAddress, isLoopback } from "../../base/ip.ts";
import type { MarkRule } from "../../state/mark-rule.ts";
import type { NftRuleset } from "../../state/nft-rule.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { ChainKey, Rule } from "../../state/rule.ts";
import { type ServedRange, serves } from "../../state/served-range.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import {
  type ServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";

export interface ListedRule {
  /** The text after `-A CHAIN `. */
  readonly text: string;
  /** Undefined if the target decides what happens to a packet and is of a kind that kube-ipvs never writes. */
  readonly rule?: Rule;
  /** Only if `rule` is undefined. */
  readonly matches?: Rule["matches"];
  /** Further matches, which kube-ipvs never writes. */
  readonly others?: readonly string[];
  /** Whether the rule jumps to a chain that does not return to this one. */
  readonly isGoto?: true;
}

export interface ListedSet {
  /** For example `hash:ip,port`. */
  readonly type: string;
  readonly entries: ReadonlySet<SetEntry>;
}

export interface ListedServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
  /** Only in planned state, if the virtual server has a firewall mark. */
  readonly range?: ServedRange;
}

/** The key of the planned virtual server for a destination, by address or by port range. */
export function plannedServerKey(
  { servers }: Pick<Tables, "servers">,
  destination: Parameters<typeof serves>[1],
): ServerKey {
  const own = virtualServerKey(destination);
  if (servers.has(own)) return own;
  for (const [key, { range }] of servers) {
    if (range !== undefined && serves(range, destination)) return key;
  }
  return own;
}

export type ListedChains = ReadonlyMap<ChainKey, readonly ListedRule[]>;

/** The planned or observed state of one family. Maps that do not apply to the mode are empty. */
export interface Tables {
  readonly chains: ListedChains;
  readonly sets: ReadonlyMap<string, ListedSet>;
  readonly servers: ReadonlyMap<ServerKey, ListedServer>;
  /** Addresses bound to kube-ipvs0. */
  readonly bound: ReadonlySet<IpAddress>;
  /** Other software's nftables rules. Undefined in planned state. */
  readonly nft?: NftRuleset;
}

/** The route to an address. */
export interface KnownRoute {
  /** The link through which packets leave. */
  readonly link: string;
  readonly isBridge: boolean;
  readonly source?: IpAddress;
}

/** Identifies packets to an address, either from this node or from another host. */
export function routeKey(destination: IpAddress, source?: IpAddress): string {
  return source === undefined ? destination : `${destination} from ${source}`;
}

/** State that affects packets but that kube-ipvs does not plan. */
export interface NodeNetwork {
  /** Addresses of this node on links other than kube-ipvs0. */
  readonly addresses: ReadonlySet<IpAddress>;
  /** Routes to addresses of other hosts. Addresses without a route are not included. */
  readonly routes: ReadonlyMap<IpAddress, KnownRoute>;
  /** Packets that have no route, or whose route or routing rule drops them, by {@link routeKey}. */
  readonly unrouted: ReadonlySet<string>;
  /** Listening sockets. A virtual server at the same address and port has the same key. */
  readonly listeners: ReadonlySet<ServerKey>;
  /** net.ipv4.vs.conntrack. If 0, packets that IPVS balances are not masqueraded. */
  readonly isIpvsTracked: boolean;
  /** net.ipv4.ip_forward or net.ipv6.conf.all.forwarding. If 0, packets to other hosts are dropped. */
  readonly isForwarding: boolean;
  /** Whether the conntrack table is full, so that the kernel may drop new connections. */
  readonly isConntrackFull?: boolean;
  /** net.ipv4.conf.all.route_localnet. If 0, packets from a loopback address cannot leave the node. */
  readonly isLoopbackRouted: boolean;
  /** The link through which the client's packets come in. Undefined if rp_filter is not strict there. */
  readonly strictLink?: string;
  /** By client: other links on which its packets may arrive, but where a strict rp_filter would drop them. */
  readonly strictLinks: ReadonlyMap<IpAddress, readonly string[]>;
  readonly markRules: readonly MarkRule[];
  /** The link for tunnels, if a routing rule delivers all its packets on this node. */
  readonly deliveringLink?: string;
  /** Addresses in the network of the client's bridge, which the client reaches without this node. */
  readonly bridgePeers: ReadonlySet<IpAddress>;
  /** bridge-nf-call-iptables or bridge-nf-call-ip6tables. If 0, packets between ports of a bridge bypass netfilter. */
  readonly isBridgeFiltered: boolean;
  /** The bridge of each bridge port, by the port's name. Undefined if no nftables chain belongs to a link. */
  readonly bridgesOfPorts?: ReadonlyMap<string, string>;
}

/** All state that affects packets. */
export interface NodeState extends Tables {
  readonly network: NodeNetwork;
  /** Sockets on which kube-ipvs serves service ports. */
  readonly serviceSockets: readonly ListenerFact[];
  /** Addresses of endpoints that run on this node. Ports do not matter, because port ranges keep the packet's port. */
  readonly onNode: ReadonlySet<string>;
}

/** Whether the address is on kube-ipvs0 or another link of this node. */
export function isLocal(address: IpAddress, { bound, network }: NodeState): boolean {
  return bound.has(address) || network.addresses.has(address);
}

/** Whether packets to the address are delivered on this node. True for loopback addresses too. */
export function isHere(address: IpAddress, state: NodeState): boolean {
  return isLocal(address, state) || isLoopback(address);
}

/** The node's source address for packets to an endpoint. */
export function leavingAddress(endpoint: IpAddress, state: NodeState): IpAddress | undefined {
  if (isLocal(endpoint, state)) return endpoint;
  return state.network.routes.get(endpoint)?.source;
}

import type { ListenerFact } from "../../answer/answers.ts";
import { hostPort, type IpAddress, isLoopback } from "../../base/ip.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { Rule } from "../../state/rule.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { VirtualServer } from "../../state/virtual-server.ts";

/** A rule of a chain; without a value it is one that only a third party writes, and is skipped. */
export interface ListedRule {
  /** Behind `-A CHAIN `. */
  readonly text: string;
  readonly rule?: Rule;
}

export interface ListedSet {
  /** `hash:ip,port` … */
  readonly type: string;
  readonly entries: ReadonlySet<SetEntry>;
}

export interface ListedServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** By `chainKey` of `state/rules-about.ts`. */
export type ListedChains = ReadonlyMap<string, readonly ListedRule[]>;

/** What kube-ipvs writes for one family: as it is planned, or as the kernel has it. A map is empty if the mode has none. */
export interface Tables {
  readonly chains: ListedChains;
  readonly sets: ReadonlyMap<string, ListedSet>;
  /** By the key of the virtual server. */
  readonly servers: ReadonlyMap<string, ListedServer>;
  /** Addresses on kube-ipvs0. */
  readonly bound: ReadonlySet<IpAddress>;
}

/** The route to an address, as far as it matters here. */
export interface KnownRoute {
  /** The link through which packets leave. */
  readonly link: string;
  readonly isBridge: boolean;
  readonly source?: IpAddress;
}

/** What a packet meets and kube-ipvs does not plan. */
export interface NodeNetwork {
  /** Addresses of this node on links other than kube-ipvs0. */
  readonly addresses: ReadonlySet<IpAddress>;
  /** Of addresses that are not this node's. Undefined if there is no route. */
  readonly routes: ReadonlyMap<IpAddress, KnownRoute>;
  /** Sockets of processes that listen, as {@link listenerKey} names them. */
  readonly listeners: ReadonlySet<string>;
  /** net.ipv4.vs.conntrack: without it, packets that IPVS balances are not masqueraded. */
  readonly isIpvsTracked: boolean;
  /** net.ipv4.ip_forward, or net.ipv6.conf.all.forwarding: packets that are not for this node are forwarded. */
  readonly isForwarding: boolean;
  /** net.ipv4.conf.all.route_localnet: packets from a loopback address may leave the node. */
  readonly isLoopbackRouted: boolean;
  /** bridge-nf-call-iptables, or -ip6tables: packets between ports of a bridge pass netfilter. */
  readonly isBridgeFiltered: boolean;
}

/** All that packets meet. */
export interface NodeState extends Tables {
  readonly network: NodeNetwork;
  /** Sockets of kube-ipvs that stand for service ports. */
  readonly serviceSockets: readonly ListenerFact[];
  /** Endpoints that run on this node, by the keys of real servers. */
  readonly onNode: ReadonlySet<string>;
}

/** `TCP 127.0.0.1:30080`. */
export function listenerKey({
  protocol,
  address,
  port,
}: {
  readonly protocol: string;
  readonly address: IpAddress;
  readonly port: number;
}): string {
  return `${protocol} ${hostPort(address, port)}`;
}

/** An address of this node, on kube-ipvs0 or elsewhere. */
export function isLocal(address: IpAddress, { bound, network }: NodeState): boolean {
  return bound.has(address) || network.addresses.has(address);
}

/** Packets to it are delivered on this node. */
export function isHere(address: IpAddress, state: NodeState): boolean {
  return isLocal(address, state) || isLoopback(address);
}

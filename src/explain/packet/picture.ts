import { hostPort, type IpAddress } from "../../base/ip.ts";
import type { RealServer } from "../../state/real-server.ts";
import type { Rule } from "../../state/rule.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { VirtualServer } from "../../state/virtual-server.ts";

/** A rule of a chain; without a value it is one that only a third party writes, and is passed over. */
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

/** What a packet meets: as it is planned, or as the kernel has it. */
export interface Picture {
  /** By `chainKey` of `state/rules-about.ts`. */
  readonly chains: ReadonlyMap<string, readonly ListedRule[]>;
  readonly sets: ReadonlyMap<string, ListedSet>;
  /** By the key of the virtual server. */
  readonly servers: ReadonlyMap<string, ListedServer>;
  /** Addresses on kube-ipvs0. */
  readonly bound: ReadonlySet<IpAddress>;
}

/** The way of packets to an address, as far as it matters here. */
export interface KnownRoute {
  /** The link through which they leave. */
  readonly link: string;
  readonly isBridge: boolean;
  readonly source?: IpAddress;
}

/** What a packet meets and nobody plans. */
export interface NodeNetwork {
  /** Addresses of this node on links other than kube-ipvs0. */
  readonly addresses: ReadonlySet<IpAddress>;
  /** Of addresses that are not this node's; absent: nothing gets there. */
  readonly routes: ReadonlyMap<IpAddress, KnownRoute>;
  /** Where processes listen, as {@link listenerKey} has it. */
  readonly listeners: ReadonlySet<string>;
  /** net.ipv4.vs.conntrack: without it nothing that IPVS balances is masqueraded. */
  readonly isIpvsTracked: boolean;
  /** net.ipv4.ip_forward, or net.ipv6.conf.all.forwarding: packets that are not for this node go on. */
  readonly isForwarding: boolean;
  /** net.ipv4.conf.all.route_localnet: packets from a loopback address may leave the node. */
  readonly isLoopbackRouted: boolean;
  /** bridge-nf-call-iptables, or -ip6tables: packets between ports of a bridge pass netfilter. */
  readonly isBridgeFiltered: boolean;
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
export function isLocal(address: IpAddress, picture: Picture, network: NodeNetwork): boolean {
  return picture.bound.has(address) || network.addresses.has(address);
}

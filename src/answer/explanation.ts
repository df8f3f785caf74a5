/** The answer of `kube-ipvs explain`. Later versions may add fields, but never change the meaning of a field. */

import type { VirtualServer } from "../state/virtual-server.ts";
import type { EndpointRow, ServiceRow } from "./rows.ts";

export type Verdict =
  /** Each connection goes to one of the endpoints. */
  | "balanced"
  /** The client gets an error, such as an ICMP "unreachable" message or a TCP reset. */
  | "refused"
  | "dropped"
  /** The packets do not belong to a Service. A process of this node gets them, if one is listening. */
  | "node"
  /** The destination is not an address of this node. */
  | "forwarded";

export interface Explanation {
  readonly mode: "ipvs" | "iptables" | "userspace";
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
  readonly verdict: Verdict;
  /** One sentence. */
  readonly summary: string;
  /** The Service that owns the destination. Undefined if there is none. */
  readonly service?: ServiceOfDestination;
  /** Losing Services, which requested the same address and port. */
  readonly losers: readonly string[];
  /** Reasons why an address or part of a Service is not served or not bound: `default/web: …`. */
  readonly conflicts: readonly string[];
  /**
   * The address to which kube-ipvs itself forwards: `192.168.10.11:30080`. The following fields describe this address.
   */
  readonly forwardedTo?: string;
  /** The virtual server in the kernel. Undefined if it is missing. Always undefined in iptables and userspace mode. */
  readonly virtualServer?: VirtualServer;
  readonly sourceRanges: readonly string[];
  readonly endpoints: readonly EndpointRow[];
  readonly packets: readonly PacketExplanation[];
  /** Differences between the kernel and the plan. */
  readonly differences: readonly Difference[];
  readonly connections: Connections;
  /** How to fix the problems found. Empty if there are none. */
  readonly advice?: readonly string[];
  /** Undefined unless requested. */
  readonly probes?: readonly Probe[];
}

/** A TCP connection from this node to an endpoint. */
export interface Probe {
  /** `10.244.1.10:8080`. */
  readonly endpoint: string;
  /** Time taken to open the connection. */
  readonly milliseconds?: number;
  /** Why the connection failed, such as `ECONNREFUSED`. */
  readonly error?: string;
}

export type ServiceOfDestination = Pick<
  ServiceRow,
  "namespace" | "name" | "portName" | "frontend" | "trafficPolicy" | "affinitySeconds"
>;

/** Explains packets from one client, or from one kind of client. */
export interface PacketExplanation {
  /** The client or kind of client: `10.244.1.7`, `this node`, `pods (10.244.0.0/16)`, `elsewhere`. */
  readonly from: string;
  /** Source address of the packet. If `from` is a kind of client, this is an example. */
  readonly source: string;
  readonly inLink?: string;
  readonly verdict: Verdict;
  readonly summary: string;
  /** Packets that are lost contrary to the plan, by cause. */
  readonly losses: readonly PacketLoss[];
  /** The summary according to the plan. Undefined if the kernel behaves as planned. */
  readonly planned?: string;
  /** The source range that allows the packet, or why none does. Undefined if the address has no source ranges. */
  readonly sourceRange?: string;
  readonly masquerading?: string;
  /** The endpoint that the scheduler `sh`, `dh` or `mh` chooses. Undefined if session affinity determines the endpoint. */
  readonly scheduled?: string;
  /** The matching rules, in the order of traversal, until an endpoint is chosen. */
  readonly path: readonly PathStep[];
  /** Endpoints grouped by their packets' path. The path shows, as an example, the rules that choose the first endpoint. */
  readonly deliveries: readonly DeliveryGroup[];
}

export interface PacketLoss {
  /** For example: `are dropped by raw PREROUTING: -j DROP`. */
  readonly cause: string;
  /** False if an earlier rule, which cannot be evaluated, may accept the packets. */
  readonly isCertain: boolean;
}

export interface PathStep {
  readonly hook: string;
  readonly table: string;
  readonly chain: string;
  readonly rule: string;
  readonly entry?: string;
  /** Whether the plan contains this rule and the set entry that it matched, if any. */
  readonly isPlanned: boolean;
  /** Present if the rule may drop or translate the packet, but cannot be evaluated. */
  readonly isMaybe?: true;
}

export interface DeliveryGroup {
  readonly realServers: readonly string[];
  readonly path: readonly PathStep[];
  readonly fate: "delivered" | "dropped" | "refused";
  readonly isMasqueraded: boolean;
  /** The source address that the endpoint sees. */
  readonly seenSource?: string;
  /** Why packets or their replies are lost. */
  readonly obstacle?: string;
}

export interface Difference {
  readonly kind: "missing" | "not-planned" | "different";
  readonly subject: string;
}

/** Connections to the destination in the kernel's tables. If a client was requested, only its connections. */
export interface Connections {
  /** Session affinity: the real servers that get the clients' next connections. */
  readonly templates: readonly RememberedConnection[];
  readonly ipvs: readonly RememberedConnection[];
  readonly conntrack: readonly TrackedConnection[];
  /** TCP connections through IPVS that an endpoint has left unanswered for some seconds. */
  readonly unanswered?: readonly {
    readonly realServer: string;
    readonly connections: number;
  }[];
  /** Whether the lists are incomplete. */
  readonly isTruncated: boolean;
}

export interface RememberedConnection {
  readonly client: string;
  readonly realServer: string;
  readonly state: string;
  /** Undefined in iptables mode, because the time of the client's last connection is unknown. */
  readonly expiresInSeconds?: number;
}

export interface TrackedConnection {
  readonly client: string;
  /** Address and port from which a reply is expected. The kernel may not have seen a reply yet. */
  readonly answeredBy: string;
}

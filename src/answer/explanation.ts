/** What `kube-ipvs explain` says, as JSON. Fields may come with a later version and never change their meaning. */

import type { VirtualServer } from "../state/virtual-server.ts";
import type { EndpointRow, ServiceRow } from "./answers.ts";

export type Verdict =
  /** One of some endpoints gets each connection. */
  | "balanced"
  /** The client gets "unreachable". */
  | "refused"
  | "dropped"
  /** No packets of a Service: a process of this node gets them, if there is one. */
  | "node"
  /** Not an address of this node. */
  | "forwarded";

export interface Explanation {
  readonly mode: "ipvs" | "iptables" | "userspace";
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
  readonly verdict: Verdict;
  /** One sentence. */
  readonly summary: string;
  /** Who is served there; absent: no Service. */
  readonly service?: ServiceOfDestination;
  /** Services that ask for the same and do not get it. */
  readonly losers: readonly string[];
  /** Why an address, or a part of the Service, is not served or not bound: `default/web: …`. */
  readonly conflicts: readonly string[];
  /** `192.168.10.11:30080`: kube-ipvs itself takes the packets and connects there; what follows is about that address. */
  readonly forwardedTo?: string;
  /** Undefined if the kernel has none, and always in iptables and userspace mode. */
  readonly virtualServer?: VirtualServer;
  readonly sourceRanges: readonly string[];
  readonly endpoints: readonly EndpointRow[];
  readonly packets: readonly PacketExplanation[];
  /** Where the kernel is not as planned. */
  readonly differences: readonly Difference[];
  readonly connections: Connections;
}

export type ServiceOfDestination = Pick<
  ServiceRow,
  "namespace" | "name" | "portName" | "frontend" | "trafficPolicy" | "affinitySeconds"
>;

/** Packets from one client, or of one kind. */
export interface PacketExplanation {
  /** `10.244.1.7`, `this node`, `pods (10.244.0.0/16)`, `elsewhere`. */
  readonly from: string;
  /** Of one kind: an example. */
  readonly source: string;
  readonly inLink?: string;
  readonly verdict: Verdict;
  readonly summary: string;
  /** What the plan says, where the kernel does otherwise. */
  readonly planned?: string;
  /** The source range that decides; absent: there are none for this address. */
  readonly sourceRange?: string;
  readonly masquerading?: string;
  /** Rules that match, in the packet's order, until an endpoint is chosen. */
  readonly path: readonly PathStep[];
  /** Groups of endpoints whose packets take the same way; of rules that choose one, those of the first. */
  readonly deliveries: readonly DeliveryGroup[];
}

export interface PathStep {
  readonly hook: string;
  readonly table: string;
  readonly chain: string;
  readonly rule: string;
  readonly entry?: string;
  /** The rule, and the entry, are as planned. */
  readonly isPlanned: boolean;
}

export interface DeliveryGroup {
  readonly realServers: readonly string[];
  readonly path: readonly PathStep[];
  readonly fate: "delivered" | "dropped" | "refused";
  readonly isMasqueraded: boolean;
  /** The source that the endpoint sees. */
  readonly seenSource?: string;
  /** Why packets or answers get lost. */
  readonly obstacle?: string;
}

export interface Difference {
  readonly kind: "missing" | "not-planned" | "different";
  readonly subject: string;
}

/** What the kernel remembers of connections to this destination, of the client where one is asked about. */
export interface Connections {
  /** Session affinity: the client's next connections go there. */
  readonly templates: readonly RememberedConnection[];
  readonly ipvs: readonly RememberedConnection[];
  readonly conntrack: readonly TrackedConnection[];
  /** There are more than are listed. */
  readonly isTruncated: boolean;
}

export interface RememberedConnection {
  readonly client: string;
  readonly realServer: string;
  readonly state: string;
  /** Undefined in iptables mode, in which the time of the client's last connection is unknown. */
  readonly expiresInSeconds?: number;
}

export interface TrackedConnection {
  readonly client: string;
  /** Who answers. */
  readonly answeredBy: string;
}

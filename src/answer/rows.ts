/** The rows of lists of Services and drains, and the query for Services. */
import { familyOf, type IpAddress } from "../base/ip.ts";
import type { ClaimReason } from "../plan/claims/claim.ts";
import type { Preference } from "../plan/preference.ts";
import { markServerId, type ServerKey, virtualServerKey } from "../state/virtual-server.ts";
import type { Destination } from "./answers.ts";

/** A row of `/v1/services`. There is one row for each address, port and protocol of a Service. */
export interface ServiceRow {
  readonly namespace: string;
  readonly name: string;
  /** Undefined if the port has no name. */
  readonly portName?: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  readonly frontend: "cluster-ip" | "external-ip" | "load-balancer" | "node-port";
  /** For port ranges, all protocols, such as `TCP,UDP`. */
  readonly protocol: string;
  readonly address: string;
  /** The first port of a port range. */
  readonly port: number;
  /** Only for port ranges: all ports, such as `5060,10000-20000`. */
  readonly ports?: string;
  /** Only for port ranges: the firewall mark of the virtual server. */
  readonly mark?: number;
  readonly scheduler: string;
  /** Session affinity timeout; 0 means no session affinity. */
  readonly affinitySeconds: number;
  readonly trafficPolicy: "Cluster" | "Local";
  /** Why the kernel does not have this virtual server. Undefined if the virtual server exists. */
  readonly reason?: string;
  /** Annotations that have no effect, each with the reason. Undefined if there are none. */
  readonly ignoredAnnotations?: readonly string[];
  /**
   * Whether the Service's topology preference applies on this node. `overflow`: too few endpoints are on preferred
   * Nodes. `no-label`: this Node does not have the label. `nodes-unknown`: Nodes are not listed yet. Undefined if the
   * Service has no preference.
   */
  readonly topologyPreference?: Preference["state"];
  /** Number of nodes that get packets through tunnels. Undefined if the address has no tunnel forwarding. */
  readonly tunnelNodes?: number;
  /** The allowed clients. All are allowed if undefined. */
  readonly sourceRanges?: readonly string[];
  /** The Service that owns the address and port instead, and the reason. Undefined if this Service owns them. */
  readonly claimedBy?: {
    readonly namespace: string;
    readonly name: string;
    readonly claim: ClaimReason;
  };
  readonly realServers: {
    readonly planned: number;
    /** Real servers in the kernel that get new connections. */
    readonly programmed: number;
    readonly draining: number;
  };
  /** Undefined unless requested. */
  readonly endpoints?: readonly EndpointRow[];
}

/** The key of a row's virtual server. */
export function serverKeyOf({
  mark,
  ...row
}: Pick<ServiceRow, "protocol" | "address" | "port" | "mark">): ServerKey {
  if (mark === undefined) return virtualServerKey(row);
  return virtualServerKey(markServerId(familyOf(row.address as IpAddress), mark));
}

export interface EndpointRow {
  readonly address: string;
  readonly port: number;
  /** Undefined if unknown. */
  readonly node?: string;
  /**
   * Whether the endpoint is ready. This field and the next three are undefined if no EndpointSlice contains the
   * endpoint anymore.
   */
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly local?: boolean;
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
  /** Undefined if the virtual server does not have this real server. */
  readonly weight?: number;
  /**
   * Whether the weight is the endpoint's own answer, or an average because there is no valid answer. Undefined if this
   * node does not ask the endpoint for its weight.
   */
  readonly weightSignal?: "answered" | "no-answer";
  /** The connection counts are undefined unless requested. */
  readonly activeConnections?: number;
  readonly inactiveConnections?: number;
  readonly drain?: DrainTimes;
  /** Why the endpoint gets no new connections. Undefined if it gets new connections. */
  readonly reason?: string;
}

export interface DrainTimes {
  readonly ageSeconds: number;
  /** Time until the remaining connections are cut. Undefined if there is no drain deadline. */
  readonly deadlineInSeconds?: number;
}

/** A row of `/v1/drains`. Rows are sorted from oldest to newest. */
export interface DrainRow extends DrainTimes {
  /** Undefined if no Service needs the virtual server anymore. */
  readonly namespace?: string;
  readonly name?: string;
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
  readonly realServer: { readonly address: string; readonly port: number };
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}

/** An entry of `/v1/history`. Entries are sorted from oldest to newest. */
export interface HistoryEntry {
  /** RFC 3339. */
  readonly time: string;
  /** `drift`: a third party changed kernel state. The other events are about changes that the kernel rejects. */
  readonly event: "drift" | "rejected" | "rejection-ended";
  /** For example `TCP 10.96.0.10:80 -> 10.244.1.10:8080`. */
  readonly subject: string;
  /** The reaction to drift (`repair`, `suppress` or `report`), or the error of a rejection. */
  readonly detail: string;
  /** The Services that a rejection affects. */
  readonly services?: readonly string[];
  /** Name and PID of the program that caused drift, if the kernel reported it. */
  readonly changedBy?: string;
}

export type ListKind = "ServiceList" | "DrainList";

/** The query of a request for Services. */
export interface ServicesQuery {
  /** All namespaces are selected if undefined. */
  readonly namespace?: string;
  /** Services with any name are selected if undefined. */
  readonly name?: string;
  /** Frontends at any address and port are selected if undefined. */
  readonly destination?: Destination;
  readonly hasEndpoints: boolean;
  /** Whether to read connection counts from the kernel. Implies `hasEndpoints`. */
  readonly hasConnections: boolean;
}

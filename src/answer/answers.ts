/**
 * What the operator's socket answers, as JSON. A field may come with a later version and never changes its meaning;
 * whatever breaks readers gets another `apiVersion` and path. Ages and pauses are seconds, durations milliseconds.
 */

import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { ClaimReason } from "../plan/claims/claim.ts";
import type { RealServer, RealServerId } from "../state/real-server.ts";
import type { RuleSet } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { VirtualServer } from "../state/virtual-server.ts";

export const apiVersion = "kube-ipvs/v1";

export interface Envelope<Kind extends string> {
  readonly apiVersion: typeof apiVersion;
  readonly kind: Kind;
}

export interface ListOf<Kind extends string, Row> extends Envelope<Kind> {
  readonly items: readonly Row[];
}

/** The type of each kind of answer. */
export interface Answers {
  readonly Status: Status;
  readonly ServiceList: ListOf<"ServiceList", ServiceRow>;
  readonly DrainList: ListOf<"DrainList", DrainRow>;
  readonly PlanFacts: PlanFacts;
  readonly Configuration: RunningConfiguration;
}

/** `/v1/config`: the configuration in force. */
export interface RunningConfiguration extends Envelope<"Configuration"> {
  /** A KubeProxyConfiguration v1alpha1 with every field. */
  readonly configuration: Readonly<Record<string, unknown>>;
}

/** Describes a daemon that does not answer. */
export interface StatusWithoutDaemon extends Envelope<"Status"> {
  readonly verdict: "Degraded" | "NotRunning";
  readonly summary: string;
}

/** `/v1/status`. */
export interface Status extends Envelope<"Status"> {
  readonly verdict: "OK" | "Starting" | "Degraded";
  /** One sentence: what is served, or what is wrong and since when. */
  readonly summary: string;
  /** Empty: OK. Starting: what the first sync waits for. */
  readonly problems: readonly Problem[];
  readonly node: { readonly name: string; readonly isEligible: boolean };
  readonly mode: "ipvs" | "iptables" | "userspace";
  /** Nothing in the kernel is changed. */
  readonly observeOnly: boolean;
  readonly ipFamilies: readonly string[];
  readonly scheduler: string;
  readonly source: SourceStatus;
  readonly lastFullSync?: SyncStatus;
  readonly lastPartialSync?: SyncStatus;
  readonly counts: Counts;
  readonly rejectedObjects: readonly RejectedObject[];
  readonly conflicts: readonly ConflictStatus[];
  readonly backingOffRepairs: readonly BackingOffRepair[];
  /** Weights that a third party set and that stay. */
  readonly manualWeights: readonly ManualWeightStatus[];
  /** Annotations of Services. */
  readonly ignoredAnnotations: readonly IgnoredAnnotationStatus[];
  /** The last one of a third party's changes. */
  readonly lastDrift?: {
    readonly subject: string;
    readonly action: string;
    readonly ageSeconds: number;
  };
  /** Absent until the kernel was prepared. */
  readonly iptables?: {
    readonly backend: string;
    readonly reason: string;
    readonly warning?: string;
  };
  readonly versions: { readonly program: string; readonly nodeJs: string; readonly kernel: string };
  readonly process: { readonly pid: number; readonly uptimeSeconds: number };
}

export type ProblemReason =
  | "not-ready"
  | "sync-failed"
  | "api-server-unreachable"
  | "rejected-objects"
  | "conflicts"
  | "backing-off-repairs";

/** Why the verdict is not OK. */
export interface Problem {
  readonly reason: ProblemReason;
  readonly message: string;
  /** Undefined if unknown. */
  readonly sinceSeconds?: number;
}

export type SourceStatus =
  | { readonly kind: "manifests"; readonly folder: string }
  | {
      readonly kind: "cluster";
      /** `10.0.0.1:6443`; absent before the first request. */
      readonly server?: string;
      /** Since its last answer; a watch that is open answers once, when it begins. */
      readonly lastAnswerSeconds?: number;
      /** Undefined if the last request succeeded. */
      readonly failingSeconds?: number;
    };

export interface SyncStatus {
  readonly ageSeconds: number;
  readonly durationMs: number;
}

export interface Counts {
  readonly services: number;
  /** Of all EndpointSlices, ready or not. */
  readonly endpoints: number;
  /** In the kernel, and wanted. */
  readonly virtualServers: number;
  /** Of these, the draining ones included. */
  readonly realServers: number;
  readonly draining: number;
  readonly rejectedObjects: number;
  readonly conflicts: number;
  readonly foreignVirtualServers: number;
  readonly possiblyOwnedVirtualServers: number;
  /** Changes of a third party since the start. */
  readonly drifts: number;
  readonly backingOffRepairs: number;
  readonly manualWeights: number;
  readonly ignoredAnnotations: number;
}

export interface RejectedObject {
  readonly subject: string;
  /** The errno's name, or the exit code of a program. */
  readonly reason: string;
  readonly message: string;
  readonly services: readonly string[];
  readonly sinceSeconds: number;
  readonly attempts: number;
  readonly retryInSeconds: number;
}

export interface ConflictStatus {
  readonly reason: string;
  /** The one that does not get what it asks for. */
  readonly service: string;
  readonly message: string;
  readonly remedy: string;
  readonly sinceSeconds: number;
}

export interface BackingOffRepair {
  readonly kind: string;
  readonly subject: string;
  /** Within ten minutes. */
  readonly drifts: number;
  readonly pauseSeconds: number;
}

export interface ManualWeightStatus {
  /** `TCP 10.96.0.1:80 -> 10.244.1.5:8080`. */
  readonly realServer: string;
  readonly weight: number;
  readonly plannedWeight: number;
}

export interface IgnoredAnnotationStatus {
  readonly service: string;
  readonly annotation: string;
  readonly value: string;
  readonly reason: string;
  readonly message: string;
  readonly sinceSeconds: number;
}

/** Rows of `/v1/services`: one for each address, port and protocol of a Service. */
export interface ServiceRow {
  readonly namespace: string;
  readonly name: string;
  /** Undefined if the port has no name. */
  readonly portName?: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  readonly frontend: "cluster-ip" | "external-ip" | "load-balancer" | "node-port";
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
  readonly scheduler: string;
  /** 0: no session affinity. */
  readonly affinitySeconds: number;
  readonly trafficPolicy: "Cluster" | "Local";
  /** Why there is no such virtual server in the kernel; absent: there is. */
  readonly reason?: string;
  /** Clients that are let in; undefined: all. */
  readonly sourceRanges?: readonly string[];
  /** Only where another Service has it: which one, and why. */
  readonly claimedBy?: {
    readonly namespace: string;
    readonly name: string;
    readonly claim: ClaimReason;
  };
  readonly realServers: {
    readonly planned: number;
    /** In the kernel, and taking connections. */
    readonly programmed: number;
    readonly draining: number;
  };
  /** Only where they were asked for. */
  readonly endpoints?: readonly EndpointRow[];
}

export interface EndpointRow {
  readonly address: string;
  readonly port: number;
  /** Undefined if unknown. */
  readonly node?: string;
  /** All four are absent where no EndpointSlice names it any more. */
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly local?: boolean;
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
  /** Undefined if the virtual server has no such real server. */
  readonly weight?: number;
  /** Only where they were asked for. */
  readonly activeConnections?: number;
  readonly inactiveConnections?: number;
  readonly drain?: DrainTimes;
  /** Why it takes no new connections; absent: it does. */
  readonly reason?: string;
}

export interface DrainTimes {
  readonly ageSeconds: number;
  /** Until the connections that are left are cut; absent: they end by themselves. */
  readonly deadlineInSeconds?: number;
}

/** Rows of `/v1/drains`, oldest first. */
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

export type ListKind = "ServiceList" | "DrainList";

/** What a request for Services asks for. */
export interface ServicesQuery {
  /** If undefined, all namespaces are selected. */
  readonly namespace?: string;
  /** If undefined, all are selected. */
  readonly name?: string;
  readonly hasEndpoints: boolean;
  /** Counts of connections, from the kernel; means endpoints too. */
  readonly hasConnections: boolean;
}

/** `/v1/plan`: what is planned about some addresses and ports, to be compared with the kernel. */
export interface PlanFacts extends Envelope<"PlanFacts">, PlannedState {
  readonly families: readonly IpFamily[];
  /** What was asked for; for a Service all its addresses and ports. */
  readonly destinations: readonly Destination[];
  /** There were more, which are omitted. */
  readonly isTruncated: boolean;
  /** The requested addresses, or addresses of the requested Service, that are not served or not bound. */
  readonly conflicts: readonly ConflictNote[];
}

/** Why a Service does not get what it asks for. */
export interface ConflictNote {
  readonly service: ServiceName;
  readonly message: string;
  readonly remedy: string;
}

/** The planned state of some addresses. Lists that this mode does not have are empty. */
export interface PlannedState {
  readonly mode: "ipvs" | "iptables" | "userspace";
  /** Undefined in userspace mode without rules. */
  readonly iptablesBackend?: "legacy" | "nft";
  /** Rows of `/v1/services` about these, with endpoints: also of Services that lost the claim. */
  readonly services: readonly ServiceRow[];
  /** In iptables mode those that packets to these destinations may meet, in userspace mode those that lead to listeners. */
  readonly rules: Readonly<Partial<Record<IpFamily, RuleSet>>>;
  /** Of the destinations those that this process itself forwards: node ports on a loopback address. */
  readonly forwards: readonly { readonly from: Destination; readonly to: Destination }[];
  readonly virtualServers: readonly {
    readonly virtualServer: VirtualServer;
    readonly realServers: readonly RealServer[];
  }[];
  /** Planned entries about these addresses and ports, by the name of the set. */
  readonly setEntries: Readonly<Record<string, readonly SetEntry[]>>;
  /** Of the addresses asked about, those that belong on kube-ipvs0. */
  readonly boundAddresses: readonly IpAddress[];
  /** Sockets that serve the destinations. */
  readonly listeners: readonly ListenerFact[];
}

/** The empty lists of a mode without virtual servers. */
export const withoutIpvs: Omit<PlannedState, "mode" | "services" | "rules"> = {
  forwards: [],
  virtualServers: [],
  setEntries: {},
  boundAddresses: [],
  listeners: [],
};

/** A socket of this process that stands for a service port. */
export interface ListenerFact {
  readonly family: IpFamily;
  readonly protocol: Protocol;
  /** Unspecified: every address. */
  readonly host: IpAddress;
  readonly port: number;
  /** Where rules lead what this node sends; most often the same. */
  readonly portOnLoopback: number;
  /** In turn; empty: a connection is accepted and reset, a datagram lost. */
  readonly backends: readonly RealServerId[];
}

export interface Destination {
  /** ICMP: an echo request, to port 0. */
  readonly protocol: Protocol | "ICMP";
  readonly address: IpAddress;
  readonly port: number;
}

/** What a request for plan facts asks about. */
export type PlanQuery = PlanSubject & {
  /** The client; absent: any. */
  readonly from?: IpAddress;
};

export type PlanSubject =
  | { readonly kind: "service"; readonly namespace: string; readonly name: string }
  | { readonly kind: "destination"; readonly destination: Destination };

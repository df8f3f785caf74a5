/**
 * The JSON answers of the operator socket. Later versions may add fields, but never change the meaning of a field.
 * Incompatible changes get a new `apiVersion` and path. Ages and pauses are in seconds; durations are in milliseconds.
 */

import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { RealServer, RealServerId } from "../state/real-server.ts";
import type { RuleSet } from "../state/rule.ts";
import type { ServedRange } from "../state/served-range.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { VirtualServer } from "../state/virtual-server.ts";
import type { DrainRow, HistoryEntry, ServiceRow } from "./rows.ts";

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
  readonly History: ListOf<"History", HistoryEntry>;
  readonly PlanFacts: PlanFacts;
  readonly Configuration: RunningConfiguration;
}

/** `/v1/config`: the effective configuration. */
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
  /** One sentence that says what is served, or what is wrong and since when. */
  readonly summary: string;
  /** Empty if the verdict is OK. If the verdict is Starting, the reasons why the first sync is waiting. */
  readonly problems: readonly Problem[];
  readonly node: { readonly name: string; readonly isEligible: boolean };
  readonly mode: "ipvs" | "iptables" | "userspace";
  /** Whether the daemon runs in observe-only mode, in which it does not change kernel state. */
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
  /** Weights that a third party set and that kube-ipvs keeps. */
  readonly manualWeights: readonly ManualWeightStatus[];
  /** Service annotations that are ignored because they are invalid or not allowed. */
  readonly ignoredAnnotations: readonly IgnoredAnnotationStatus[];
  /** Objects and manifest files that currently have invalid fields, which kube-ipvs ignores. */
  readonly invalidObjects: readonly InvalidObjectStatus[];
  /** The last change by a third party. */
  readonly lastDrift?: {
    readonly subject: string;
    readonly action: string;
    readonly ageSeconds: number;
    /** Name and PID of the program. The kernel reports them only for rules written with nf_tables. */
    readonly changedBy?: string;
  };
  /** Undefined until the kernel has been prepared. */
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
  | "manifests-unreadable"
  | "taint-not-removed"
  | "rejected-objects"
  | "conflicts"
  | "backing-off-repairs"
  | "drift";

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
      /** Address of the API server, such as `10.0.0.1:6443`. Undefined before the first request. */
      readonly server?: string;
      /** Time since the API server's last answer. A watch counts as one answer, at the time it was opened. */
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
  /** Endpoints in all EndpointSlices, ready or not. */
  readonly endpoints: number;
  /** Planned virtual servers that exist in the kernel. */
  readonly virtualServers: number;
  /** Real servers of these virtual servers, including draining ones. */
  readonly realServers: number;
  readonly draining: number;
  readonly rejectedObjects: number;
  readonly conflicts: number;
  readonly foreignVirtualServers: number;
  readonly possiblyOwnedVirtualServers: number;
  /** Changes by third parties since startup. */
  readonly drifts: number;
  readonly backingOffRepairs: number;
  readonly manualWeights: number;
  /** Endpoints that answered this node's requests for their weights, and endpoints without a valid answer. */
  readonly answeredWeights: number;
  readonly unansweredWeights: number;
  /** Endpoints that get no new connections because new connections to them failed. */
  readonly ejectedEndpoints: number;
  readonly ignoredAnnotations: number;
  /** Objects and manifest files that currently have invalid fields. */
  readonly invalidObjects: number;
}

export interface InvalidObjectStatus {
  /** `services`, `endpointslices`, `nodes`, `pods`, or `manifest` for a file. */
  readonly kind: string;
  /** `namespace/name`, or the file and line. */
  readonly subject: string;
  readonly invalidFields: number;
  /** Describes the first invalid field. */
  readonly message: string;
}

export interface RejectedObject {
  readonly subject: string;
  /** The errno name, or a program's exit code. */
  readonly reason: string;
  readonly message: string;
  readonly services: readonly string[];
  readonly sinceSeconds: number;
  readonly attempts: number;
  readonly retryInSeconds: number;
}

export interface ConflictStatus {
  readonly reason: string;
  /** The losing Service. */
  readonly service: string;
  readonly message: string;
  readonly remedy: string;
  readonly sinceSeconds: number;
}

export interface BackingOffRepair {
  readonly kind: string;
  readonly subject: string;
  /** How many times the repair was reverted within ten minutes. */
  readonly drifts: number;
  readonly pauseSeconds: number;
  /** Time until the next repair. 0 if it is due. */
  readonly retryInSeconds: number;
}

export interface ManualWeightStatus {
  /** For example: `TCP 10.96.0.1:80 -> 10.244.1.5:8080`. */
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

/** `/v1/plan`: the planned state of some addresses and ports, for comparison with the kernel. */
export interface PlanFacts extends Envelope<"PlanFacts">, PlannedState {
  readonly families: readonly IpFamily[];
  /** The requested address and port, or all addresses and ports of the requested Service. */
  readonly destinations: readonly Destination[];
  /** Whether `destinations` is truncated because the Service has too many. */
  readonly isTruncated: boolean;
  /** The requested addresses, or addresses of the requested Service, that are not served or not bound. */
  readonly conflicts: readonly ConflictNote[];
}

/** Why a Service does not get a requested address. */
export interface ConflictNote {
  readonly service: ServiceName;
  readonly message: string;
  readonly remedy: string;
}

/** The planned state of some addresses. Lists that do not apply to the mode are empty. */
export interface PlannedState {
  readonly mode: "ipvs" | "iptables" | "userspace";
  /** Undefined in userspace mode without rules. */
  readonly iptablesBackend?: "legacy" | "nft" | "nftables";
  /** Rows of `/v1/services` for the destinations, with endpoints. Includes losing Services. */
  readonly services: readonly ServiceRow[];
  /**
   * IPVS mode: all rules. iptables mode: the rules that packets to the destinations may traverse. Userspace mode: the
   * rules that redirect to listeners.
   */
  readonly rules: Readonly<Partial<Record<IpFamily, RuleSet>>>;
  /** Destinations whose connections kube-ipvs itself forwards: node ports on a loopback address. */
  readonly forwards: readonly { readonly from: Destination; readonly to: Destination }[];
  readonly virtualServers: readonly {
    readonly virtualServer: VirtualServer;
    readonly realServers: readonly RealServer[];
    readonly range?: ServedRange;
  }[];
  /** Planned entries for these addresses and ports, by set name. */
  readonly setEntries: Readonly<Record<string, readonly SetEntry[]>>;
  /** The requested addresses that should be bound to kube-ipvs0. */
  readonly boundAddresses: readonly IpAddress[];
  /** Sockets that serve the destinations. */
  readonly listeners: readonly ListenerFact[];
}

/** The lists that are empty in a mode without virtual servers. */
export const withoutIpvs: Omit<PlannedState, "mode" | "services" | "rules"> = {
  forwards: [],
  virtualServers: [],
  setEntries: {},
  boundAddresses: [],
  listeners: [],
};

/** A socket on which kube-ipvs serves a service port. */
export interface ListenerFact {
  readonly family: IpFamily;
  readonly protocol: Protocol;
  /** The unspecified address means all addresses. */
  readonly host: IpAddress;
  readonly port: number;
  /** The port to which rules redirect packets from this node. Usually equal to `port`. */
  readonly portOnLoopback: number;
  /** Endpoints, used in turn. If empty, connections are accepted and reset, and datagrams are lost. */
  readonly backends: readonly RealServerId[];
}

export interface Destination {
  /** ICMP means an echo request, with port 0. */
  readonly protocol: Protocol | "ICMP";
  readonly address: IpAddress;
  readonly port: number;
}

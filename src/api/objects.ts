/**
 * The three kinds of objects we watch, narrowed to compact records: only what the program reads, flat
 * strings (no slices of a response body), canonical addresses. Made by `decode-*.ts` from `unknown`.
 */
import type { Cidr, IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";

export type { ServiceName } from "../base/service-name.ts";

export interface ServicePortRecord {
  /** May be empty when the Service has one port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 when there is none. */
  readonly nodePort: number;
}

/** A Service that wants a proxy; headless and ExternalName ones never become records. */
export interface ServiceRecord {
  readonly name: ServiceName;
  /** Seconds since the epoch; 0 when unknown. Decides who wins when two claim one address and port. */
  readonly createdAtSeconds: number;
  /** From a manifest: its place in the order of files, which decides instead. Undefined if it is from an API server. */
  readonly manifestOrder?: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  /** At most one per family. */
  readonly clusterIps: readonly IpAddress[];
  readonly externalIps: readonly IpAddress[];
  /** From status.loadBalancer.ingress with ipMode absent or VIP. */
  readonly loadBalancerIps: readonly IpAddress[];
  /** As given, host bits cleared; the rule about zero networks is the model's. */
  readonly sourceRanges: readonly Cidr[];
  readonly ports: readonly ServicePortRecord[];
  /** Seconds; 0 without session affinity. 10800 where ClientIP is set without a timeout. */
  readonly affinitySeconds: number;
  readonly isExternalPolicyLocal: boolean;
  readonly isInternalPolicyLocal: boolean;
  /** 0 when there is none. */
  readonly healthCheckNodePort: number;
  /** Those under kube-ipvs.io/, and aliases of theirs; absent: there are none. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface SlicePortRecord {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface EndpointRecord {
  /** The first address of the API's list; the others are never used. */
  readonly address: IpAddress;
  /** Empty when unknown. */
  readonly nodeName: string;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  /** Absent when unknown. */
  readonly zone?: string;
  /** Absent without hints, so that most endpoints cost nothing. */
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
}

export interface EndpointSliceRecord {
  /** `namespace/name` of the slice itself. */
  readonly name: string;
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly ports: readonly SlicePortRecord[];
  readonly endpoints: readonly EndpointRecord[];
  /** Annotation kube-ipvs.io/weight as it stands there; absent without. */
  readonly weightText?: string;
  /** Milliseconds since the epoch of endpoints.kubernetes.io/last-change-trigger-time; absent without. */
  readonly triggeredAtMs?: number;
}

export interface NodeRecord {
  readonly name: string;
  /** InternalIP addresses in order, then ExternalIP. */
  readonly addresses: readonly IpAddress[];
  readonly podCidrs: readonly Cidr[];
  /** Label topology.kubernetes.io/zone; absent without the label. */
  readonly zone?: string;
  /** Label kube-ipvs.io/weight; absent without the label. */
  readonly weight?: number;
  /** Neither being deleted nor tainted ToBeDeletedByClusterAutoscaler. */
  readonly isEligible: boolean;
}

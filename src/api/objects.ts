/**
 * The three watched kinds as compact records. They contain only the fields that the program uses, with flat strings
 * (not slices of a response body) and canonical addresses. The modules in `decode/` create them from `unknown`.
 */
import type { Cidr, IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";
import type { SliceEndpoint, SlicePort } from "../endpoint-slices/objects.ts";

export type { ServiceName } from "../base/service-name.ts";

export interface ServicePortRecord {
  /** The port name, which may be empty if the Service has a single port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 if the port has no node port. */
  readonly nodePort: number;
}

/** A Service to proxy. Headless and ExternalName Services are never recorded. */
export interface ServiceRecord {
  readonly name: ServiceName;
  /** Seconds since the epoch; 0 if unknown. Determines which of several Services owns an address and port. */
  readonly createdAtSeconds: number;
  /**
   * Position in the order of manifests, which replaces the creation time. Undefined if the Service comes from an API
   * server.
   */
  readonly manifestOrder?: string;
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  /** At most one per family. */
  readonly clusterIps: readonly IpAddress[];
  readonly externalIps: readonly IpAddress[];
  /** From status.loadBalancer.ingress, if ipMode is absent or VIP. */
  readonly loadBalancerIps: readonly IpAddress[];
  /** As specified, with host bits cleared. `model/service-ports.ts` handles ranges with prefix length 0. */
  readonly sourceRanges: readonly Cidr[];
  readonly ports: readonly ServicePortRecord[];
  /** Seconds. 0 means no session affinity. 10800 if ClientIP has no timeout. */
  readonly affinitySeconds: number;
  readonly isExternalPolicyLocal: boolean;
  readonly isInternalPolicyLocal: boolean;
  /** 0 if there is none. */
  readonly healthCheckNodePort: number;
  /** Annotations under kube-ipvs.io/ and their aliases. Undefined if there are none. */
  readonly annotations?: Readonly<Record<string, string>>;
}

export type SlicePortRecord = Omit<SlicePort, "appProtocol">;

/** An endpoint as the node daemon reads it. Only the object's first address is used; the API reserves the others. */
export type EndpointRecord = Omit<SliceEndpoint, "pod" | "podUid" | "hostname">;

export interface EndpointSliceRecord {
  /** `namespace/name` of the slice itself. */
  readonly name: string;
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly ports: readonly SlicePortRecord[];
  readonly endpoints: readonly EndpointRecord[];
  /** Unparsed value of the annotation kube-ipvs.io/weight. Undefined if the annotation is missing. */
  readonly weightText?: string;
  /**
   * endpoints.kubernetes.io/last-change-trigger-time in milliseconds since the epoch. Undefined if that annotation is
   * missing.
   */
  readonly triggeredAtMs?: number;
}

export interface NodeRecord {
  readonly name: string;
  /** All InternalIP addresses in their order, then all ExternalIP addresses. */
  readonly addresses: readonly IpAddress[];
  readonly podCidrs: readonly Cidr[];
  /** Label topology.kubernetes.io/zone. Undefined if the label is missing. */
  readonly zone?: string;
  /** Label kube-ipvs.io/weight. Undefined if there is no valid label. */
  readonly weight?: number;
  /** All labels, or only the requested ones in a list of Nodes. Undefined if there are none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** False if the Node is being deleted or has the taint ToBeDeletedByClusterAutoscaler. */
  readonly isEligible: boolean;
  /** Positions of {@link notReadyTaint} in the Node's taints. Undefined if it has none. */
  readonly notReadyTaints?: readonly number[];
}

/** Keeps pods off a Node until Services work there (`kubeIpvs.removeNotReadyTaint`). */
export const notReadyTaint = "kube-ipvs/not-ready";

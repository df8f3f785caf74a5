/** What endpoints are made from, and what they are made into, as compact records. */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";

export type Labels = Readonly<Record<string, string>>;

/** Labels of EndpointSlices that have a meaning for Kubernetes. */
export const serviceNameLabel = "kubernetes.io/service-name";
export const managedByLabel = "endpointslice.kubernetes.io/managed-by";
export const headlessLabel = "service.kubernetes.io/headless";

/** The value of {@link managedByLabel} on slices that kube-ipvs made. */
export const ourManagerName = "kube-ipvs-endpoint-controller";

/** A port that a container of a Pod names. */
export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** A Pod that has an address and may run; those that ended are no records. */
export interface PodRecord {
  /** `namespace/name`. */
  readonly name: string;
  /** Empty in a manifest. */
  readonly uid: string;
  readonly labels: Labels;
  /** At most one per family. */
  readonly addresses: readonly IpAddress[];
  /** Empty when unknown. */
  readonly nodeName: string;
  readonly isReady: boolean;
  readonly isTerminating: boolean;
  /** Empty without. */
  readonly hostname: string;
  /** Empty without. */
  readonly subdomain: string;
  /** Only ports with a name, in the order in which they are searched. */
  readonly namedPorts: readonly ContainerPort[];
}

/** A port of a Service, with what it means at a Pod. */
export interface TargetedPort {
  readonly name: string;
  readonly protocol: Protocol;
  /** A number, or the name of a container's port. */
  readonly target: number | string;
  /** Empty without. */
  readonly appProtocol: string;
}

/** A Service whose endpoints are the Pods that it selects. */
export interface SelectingService {
  readonly name: ServiceName;
  /** Empty in a manifest. */
  readonly uid: string;
  /** Never empty: a Service without a selector has endpoints that others make. */
  readonly selector: Labels;
  readonly labels: Labels;
  /** Empty: unknown, those of its Pods. */
  readonly families: readonly IpFamily[];
  readonly ports: readonly TargetedPort[];
  readonly publishesNotReady: boolean;
  readonly isHeadless: boolean;
  /** Traffic is to stay in the client's zone, or on its node; absent: neither. */
  readonly trafficDistribution?: "zone" | "node";
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  readonly appProtocol: string;
}

/** An endpoint in a slice. Each Pod has at most one in the slices of a Service and family. */
export interface SliceEndpoint {
  /** `namespace/name`; empty: not of a Pod. */
  readonly pod: string;
  readonly podUid: string;
  readonly address: IpAddress;
  readonly nodeName: string;
  readonly hostname: string;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  /** Of its node; absent: unknown. */
  readonly zone?: string;
  /** Undefined if there are none. */
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
}

/** What of a slice is ours to write. */
export interface SliceContent {
  readonly labels: Labels;
  /** Of the Service that it belongs to. */
  readonly ownerUid: string;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly SliceEndpoint[];
}

/** An EndpointSlice as it is stored. Of slices that others manage, only the first group of fields counts. */
export interface StoredSlice extends SliceContent {
  /** `namespace/name` of the slice itself. */
  readonly name: string;
  readonly service: ServiceName;
  /** Empty without the label. */
  readonly managedBy: string;
  readonly hasEndpoints: boolean;

  readonly uid: string;
  readonly resourceVersion: string;
  /** Undefined if it is neither IPv4 nor IPv6. */
  readonly family?: IpFamily;
}

/** A slice that is to be made. */
export interface NewSlice extends SliceContent {
  readonly name: string;
  readonly service: ServiceName;
  readonly family: IpFamily;
}

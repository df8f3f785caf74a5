/** Compact records of the objects that determine endpoints, and of EndpointSlices. */
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { ServiceName } from "../base/service-name.ts";

export type Labels = Readonly<Record<string, string>>;

/** EndpointSlice labels that Kubernetes defines. */
export const serviceNameLabel = "kubernetes.io/service-name";
export const managedByLabel = "endpointslice.kubernetes.io/managed-by";
export const headlessLabel = "service.kubernetes.io/headless";

/** The value of {@link managedByLabel} on slices that kube-ipvs created. */
export const ourManagerName = "kube-ipvs-endpoint-controller";

/** A named port of a container. */
export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** A Pod that has an address and has not terminated. Terminated Pods are not recorded. */
export interface PodRecord {
  /** `namespace/name`. */
  readonly name: string;
  /** Empty if the object comes from a manifest. */
  readonly uid: string;
  readonly labels: Labels;
  /** At most one per family. */
  readonly addresses: readonly IpAddress[];
  /** Empty if unknown. */
  readonly nodeName: string;
  readonly isReady: boolean;
  readonly isTerminating: boolean;
  /** Empty if not set. */
  readonly hostname: string;
  /** Empty if not set. */
  readonly subdomain: string;
  /** Only named ports, in the order in which they are searched. */
  readonly namedPorts: readonly ContainerPort[];
}

/** A port of a Service with its target port in the Pods. */
export interface TargetedPort {
  readonly name: string;
  readonly protocol: Protocol;
  /** A port number, or the name of a container port. */
  readonly target: number | string;
  /** Empty if not set. */
  readonly appProtocol: string;
}

/** A Service whose endpoints are the Pods that it selects. */
export interface SelectingService {
  readonly name: ServiceName;
  /** Empty if the object comes from a manifest. */
  readonly uid: string;
  /** Never empty, because Services without a selector get their endpoints from other controllers. */
  readonly selector: Labels;
  readonly labels: Labels;
  /** If empty, the families are unknown and those of the Pods apply. */
  readonly families: readonly IpFamily[];
  readonly ports: readonly TargetedPort[];
  readonly publishesNotReady: boolean;
  readonly isHeadless: boolean;
  /** Where traffic should stay: in the client's zone or on its node. If absent, traffic may go anywhere. */
  readonly trafficDistribution?: "zone" | "node";
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  readonly appProtocol: string;
}

/** An endpoint in a slice. Each Pod has at most one endpoint per Service and family. */
export interface SliceEndpoint {
  /** `namespace/name`. Empty if the endpoint is not a Pod. */
  readonly pod: string;
  readonly podUid: string;
  readonly address: IpAddress;
  /** Empty if unknown. */
  readonly nodeName: string;
  readonly hostname: string;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  /** Zone of the endpoint's node. Undefined if unknown. */
  readonly zone?: string;
  /** Undefined if there are no hints, which saves memory for most endpoints. */
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
}

/** The fields of a slice that kube-ipvs writes. */
export interface SliceContent {
  readonly labels: Labels;
  /** UID of the Service that owns the slice. */
  readonly ownerUid: string;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly SliceEndpoint[];
}

/** A stored EndpointSlice. For slices of other managers, only the fields from `name` to `hasEndpoints` are used. */
export interface StoredSlice extends SliceContent {
  /** `namespace/name` of the slice itself. */
  readonly name: string;
  readonly service: ServiceName;
  /** Empty if the slice does not have the label. */
  readonly managedBy: string;
  readonly hasEndpoints: boolean;

  readonly uid: string;
  readonly resourceVersion: string;
  /** Undefined if the address type is neither IPv4 nor IPv6. */
  readonly family?: IpFamily;
}

export interface NewSlice extends SliceContent {
  readonly name: string;
  readonly service: ServiceName;
  readonly family: IpFamily;
}

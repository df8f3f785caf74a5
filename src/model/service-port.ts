import type { ServiceName } from "../api/objects.ts";
import type { Cidr, IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";

/** One port of a Service in one family: the unit of planning. */
export interface ServicePort {
  readonly family: IpFamily;
  readonly service: ServiceName;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 when there is none. */
  readonly nodePort: number;
  readonly clusterIp: IpAddress;
  readonly externalIps: readonly IpAddress[];
  readonly loadBalancerIps: readonly IpAddress[];
  /** Empty: no restriction. Of this family only; a zero network empties the list. */
  readonly sourceRanges: readonly Cidr[];
  readonly affinitySeconds: number;
  readonly isExternalPolicyLocal: boolean;
  readonly isInternalPolicyLocal: boolean;
  /** 0 when there is none. */
  readonly healthCheckNodePort: number;
  readonly createdAtSeconds: number;
}

/** `namespace/name:port`, without the colon for an unnamed port. Not unique: two protocols may share it. */
export function servicePortName(id: {
  readonly service: string;
  readonly portName: string;
}): string {
  return id.portName === "" ? id.service : `${id.service}:${id.portName}`;
}

/** Unique key of a service port within a family, also of the endpoints that belong to it. */
export function servicePortKey(id: {
  readonly service: string;
  readonly portName: string;
  readonly protocol: Protocol;
}): string {
  return `${servicePortName(id)}/${id.protocol}`;
}

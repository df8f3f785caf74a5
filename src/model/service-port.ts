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
  /** Those of both that are the node's own, at a port where a process of the node listens. Undefined if there are none. */
  readonly refusedAddresses?: readonly IpAddress[];
  /** Empty: no restriction. Of this family only; a zero network empties the list. */
  readonly sourceRanges: readonly Cidr[];
  readonly affinitySeconds: number;
  readonly isExternalPolicyLocal: boolean;
  readonly isInternalPolicyLocal: boolean;
  /** 0 when there is none. */
  readonly healthCheckNodePort: number;
  readonly createdAtSeconds: number;
  /** Undefined if the Service is not from a manifest. */
  readonly manifestOrder?: string;
}

/**
 * Sorts whoever has a better right to an address or port first: the older Service, in a folder of manifests the
 * first in the order of files, then by name. Pure.
 */
export function bySeniority(one: Seniority, other: Seniority): number {
  const age = one.createdAtSeconds - other.createdAtSeconds;
  if (age !== 0) return age;
  const place = compareTexts(one.manifestOrder ?? "", other.manifestOrder ?? "");
  return place !== 0 ? place : compareTexts(one.name, other.name);
}

export interface Seniority {
  readonly name: string;
  readonly createdAtSeconds: number;
  readonly manifestOrder?: string;
}

function compareTexts(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
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

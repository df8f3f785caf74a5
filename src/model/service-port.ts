import type { ServiceName, ServicePortRecord, ServiceRecord } from "../api/objects.ts";
import type { Cidr, IpAddress, IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";

/** One port of a Service in one IP family. Planning handles each service port separately. */
export interface ServicePort
  extends Pick<ServicePortRecord, "protocol" | "port" | "nodePort">,
    Omit<ServiceRecord, "name" | "type" | "clusterIps" | "ports" | "annotations"> {
  readonly family: IpFamily;
  readonly service: ServiceName;
  readonly portName: string;
  readonly clusterIp: IpAddress;
  /**
   * External and load-balancer IPs that are not served, because they are node addresses and a local process listens on
   * this port there. Undefined if there are none.
   */
  readonly unservedAddresses?: readonly IpAddress[];
  /** Ranges of this family only. Empty means no restriction; 0.0.0.0/0 or ::/0 also results in an empty list. */
  readonly sourceRanges: readonly Cidr[];
}

/**
 * Sorts claims to an address or port, the strongest first: older Service, earlier position in the manifests, name.
 * Pure.
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

/**
 * `namespace/name:port`, or `namespace/name` for an unnamed port. Not unique: a TCP and a UDP port may have the same
 * name.
 */
export function servicePortName(id: {
  readonly service: string;
  readonly portName: string;
}): string {
  return id.portName === "" ? id.service : `${id.service}:${id.portName}`;
}

/** Identifies a service port within a family. */
export type ServicePortKey = string & { readonly __brand: "ServicePortKey" };

export function servicePortKey(id: {
  readonly service: string;
  readonly portName: string;
  readonly protocol: Protocol;
}): ServicePortKey {
  return `${servicePortName(id)}/${id.protocol}` as ServicePortKey;
}

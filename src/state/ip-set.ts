import type { IpFamily } from "../base/ip.ts";

export type IpSetType =
  | "hash:ip"
  | "hash:ip,port"
  | "hash:ip,port,ip"
  | "hash:ip,port,net"
  | "bitmap:port";

/** An ipset with the parameters that kube-proxy and our rules require. */
export interface IpSet {
  /** At most 31 bytes (IPSET_MAXNAMELEN minus the terminator). */
  readonly name: string;
  readonly type: IpSetType;
  /**
   * Family of the set's addresses. A bitmap:port set has no addresses, so it has the family of the rules that use it.
   */
  readonly family: IpFamily;
  /** Maximum number of entries in a hash set. Always 65536 (ports 0–65535) for bitmap:port. */
  readonly maxElements: number;
}

/** A set as the kernel reports it. */
export interface ObservedIpSet {
  readonly name: string;
  /** The kernel's type name. It may be a type that we do not use. */
  readonly type: string;
  /** Undefined for bitmap types. */
  readonly family?: IpFamily;
  /** Undefined if the set has no maximum, as in nf_tables. */
  readonly maxElements?: number;
  /**
   * Number of rules and sets that refer to this set. A set with references cannot be destroyed. Undefined if unknown.
   */
  readonly references?: number;
  readonly elementCount: number;
  /** Whether the set has options such as a timeout, counters, comments or a netmask. Our sets never have any. */
  readonly hasOptions?: true;
}

/** The creation parameters of a desired or an existing set. */
type SetParameters = Pick<ObservedIpSet, "type" | "family" | "maxElements" | "hasOptions">;

/** Whether both sets have the same parameters, so that an existing set can be used unchanged. */
export function sameIpSet(one: SetParameters, other: SetParameters): boolean {
  return (
    isSwappable(one, other) &&
    (one.maxElements ?? other.maxElements) === (other.maxElements ?? one.maxElements) &&
    one.hasOptions === other.hasOptions
  );
}

/** Whether the kernel can swap the two sets, which requires the same type and family. */
export function isSwappable(one: SetParameters, other: SetParameters): boolean {
  if (one.type !== other.type) return false;
  return one.type === "bitmap:port" || one.family === other.family;
}

import type { IpFamily } from "../base/ip.ts";

export type IpSetType =
  | "hash:ip"
  | "hash:ip,port"
  | "hash:ip,port,ip"
  | "hash:ip,port,net"
  | "bitmap:port";

/** An ipset by the parameters that make it acceptable to kube-proxy and to our rules. */
export interface IpSet {
  /** At most 31 bytes (IPSET_MAXNAMELEN less the terminator). */
  readonly name: string;
  readonly type: IpSetType;
  /** Of the addresses it holds; bitmap:port has none, the field then says whose instance owns it. */
  readonly family: IpFamily;
  /** Most entries a hash set takes; for bitmap:port always 65536 (ports 0–65535). */
  readonly maxElements: number;
}

/** A set as the kernel reports it. */
export interface ObservedIpSet {
  readonly name: string;
  /** The kernel's type name; may be one we never make. */
  readonly type: string;
  /** Absent for bitmap types. */
  readonly family?: IpFamily;
  readonly maxElements: number;
  /** Number of rules and sets that refer to it; such a set cannot be destroyed. */
  readonly references: number;
  readonly elementCount: number;
  /** Made with a time-out, counters, comments, a netmask or the like, which our sets have not. */
  readonly hasOptions?: true;
}

/** True when an existing set can be used as it is. */
export function sameIpSet(desired: IpSet, observed: ObservedIpSet): boolean {
  if (!isSwappable(desired, observed) || observed.hasOptions === true) return false;
  return desired.maxElements === observed.maxElements;
}

/** True when the two may change places by a swap: same type and family. */
export function isSwappable(one: IpSet, observed: ObservedIpSet): boolean {
  if (one.type !== observed.type) return false;
  return one.type === "bitmap:port" || one.family === observed.family;
}

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
  /** Made with a timeout, counters, comments, a netmask or the like, which our sets have not. */
  readonly hasOptions?: true;
}

/** What a set is made with: of one that we want, or of one that is there. */
type SetParameters = Pick<ObservedIpSet, "type" | "family" | "maxElements" | "hasOptions">;

/** True when both are made alike: an existing set can be used as it is. */
export function sameIpSet(one: SetParameters, other: SetParameters): boolean {
  return (
    isSwappable(one, other) &&
    one.maxElements === other.maxElements &&
    one.hasOptions === other.hasOptions
  );
}

/** True when the two may change places by a swap: same type and family. */
export function isSwappable(one: SetParameters, other: SetParameters): boolean {
  if (one.type !== other.type) return false;
  return one.type === "bitmap:port" || one.family === other.family;
}

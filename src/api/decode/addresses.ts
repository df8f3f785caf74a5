import {
  type Cidr,
  familyOf,
  type IpAddress,
  isLoopback,
  parseCidr,
  parseIpAddress,
} from "../../base/ip.ts";
import type { RefusalReason } from "../refusals.ts";
import { type DecodeScope, isAbsent, refusePart } from "./fields.ts";

/**
 * A unicast address that others can reach; `undefined` when absent or refused. An API server admits no
 * unspecified, loopback or multicast address in these fields, and binding one would break the node.
 */
export function addressAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
  reason: RefusalReason,
): IpAddress | undefined {
  const address = typeof value === "string" ? parseIpAddress(value) : undefined;
  if (address === undefined) return refusePart(scope, field, reason, value);
  return isSpecial(address) ? refusePart(scope, field, "special-address", value) : address;
}

/** A network, white space around it tolerated; blank gives `undefined` without a refusal. */
export function cidrAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
  reason: RefusalReason,
): Cidr | undefined {
  if (isBlank(value)) return undefined;
  const cidr = typeof value === "string" ? parseCidr(value.slice(0, 99).trim()) : undefined;
  return cidr ?? refusePart(scope, field, reason, value);
}

/** True for what upstream drops silently: absent, empty, only white space. */
export function isBlank(value: unknown): boolean {
  return isAbsent(value) || (typeof value === "string" && value.trim() === "");
}

function isSpecial(address: IpAddress): boolean {
  if (isLoopback(address)) return true;
  if (familyOf(address) === "IPv6") return address === "::" || address.startsWith("ff");
  const firstOctet = Number(address.slice(0, address.indexOf(".")));
  // 0.0.0.0/8 is "this network", 224.0.0.0/4 multicast, 255.255.255.255 broadcast.
  return (
    firstOctet === 0 || (firstOctet >= 224 && firstOctet < 240) || address === "255.255.255.255"
  );
}

import {
  type Cidr,
  familyOf,
  type IpAddress,
  isLoopback,
  parseCidr,
  parseIpAddress,
} from "../../base/ip.ts";
import type { RefusalReason } from "../refusals.ts";
import { isAbsent, type Untrusted } from "./fields.ts";

/**
 * Reads a unicast address that other hosts can reach. Undefined if absent or invalid. API servers also reject
 * unspecified, loopback and multicast addresses in these fields. Binding such an address would break the node.
 */
export function addressOf(given: Untrusted, reason: RefusalReason): IpAddress | undefined {
  const address = parsedAddress(given);
  if (address === undefined) return given.refuse(reason);
  return isSpecial(address) ? given.refuse("special-address") : address;
}

/** Reads any kind of address. Undefined if the value is not an address. */
export function parsedAddress({ value }: Untrusted): IpAddress | undefined {
  return typeof value === "string" ? parseIpAddress(value) : undefined;
}

/** Reads a network, ignoring surrounding whitespace. A blank value yields `undefined` and is not reported. */
export function cidrOf(given: Untrusted, reason: RefusalReason): Cidr | undefined {
  const { value } = given;
  if (isBlank(value)) return undefined;
  const cidr = typeof value === "string" ? parseCidr(value.slice(0, 99).trim()) : undefined;
  return cidr ?? given.refuse(reason);
}

/** Whether the value is absent, empty or only whitespace. kube-proxy ignores such values silently. */
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

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
 * A unicast address that others can reach; `undefined` when absent or refused. An API server admits no
 * unspecified, loopback or multicast address in these fields, and binding one would break the node.
 */
export function addressOf(given: Untrusted, reason: RefusalReason): IpAddress | undefined {
  const address = parsedAddress(given);
  if (address === undefined) return given.refuse(reason);
  return isSpecial(address) ? given.refuse("special-address") : address;
}

/** An address of any kind; `undefined` when it is none. */
export function parsedAddress({ value }: Untrusted): IpAddress | undefined {
  return typeof value === "string" ? parseIpAddress(value) : undefined;
}

/** A network, white space around it tolerated; blank gives `undefined` without a refusal. */
export function cidrOf(given: Untrusted, reason: RefusalReason): Cidr | undefined {
  const { value } = given;
  if (isBlank(value)) return undefined;
  const cidr = typeof value === "string" ? parseCidr(value.slice(0, 99).trim()) : undefined;
  return cidr ?? given.refuse(reason);
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

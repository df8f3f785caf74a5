import { networkInterfaces } from "node:os";
import { type IpAddress, isIpv6LinkLocal, parseIpAddress } from "../../base/ip.ts";

/**
 * The current addresses of all links except loopback, sorted. Excludes fe80::/10 because each pod's link has such an
 * address and no client uses it.
 */
export function readNodeAddresses(): readonly IpAddress[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const texts = all.filter(({ internal }) => !internal).map(({ address }) => address);
  const addresses = texts.flatMap((text) => parseIpAddress(text) ?? []);
  return [...new Set(addresses)].filter((address) => !isIpv6LinkLocal(address)).sort();
}

import { networkInterfaces } from "node:os";
import { type IpAddress, isIpv6LinkLocal, parseIpAddress } from "../../base/ip.ts";

/** Of all links but loopback, as they are now; sorted. Without fe80::/10: each link of a pod has one, and nobody asks there. */
export function readNodeAddresses(): readonly IpAddress[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const texts = all.filter(({ internal }) => !internal).map(({ address }) => address);
  const addresses = texts.flatMap((text) => parseIpAddress(text) ?? []);
  return [...new Set(addresses)].filter((address) => !isIpv6LinkLocal(address)).sort();
}

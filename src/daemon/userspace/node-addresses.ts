import { networkInterfaces } from "node:os";
import { type IpAddress, parseIpAddress } from "../../base/ip.ts";

/** Of all links but loopback, as they are now; sorted. */
export function readNodeAddresses(): readonly IpAddress[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const texts = all.filter(({ internal }) => !internal).map(({ address }) => address);
  return texts.flatMap((text) => parseIpAddress(text) ?? []).sort();
}

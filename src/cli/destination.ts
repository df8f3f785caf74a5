/** Parses the address and port in a command's argument. Pure. */
import type { Destination } from "../answer/answers.ts";
import { type IpAddress, parseIpAddress } from "../base/ip.ts";

/** Parses `10.96.0.10:53/udp`, `[fd00:96::a]:80` or `10.96.0.10/icmp`. Undefined if it is invalid. */
export function destinationOf(text: string): Destination | undefined {
  const slash = text.indexOf("/");
  const place = slash < 0 ? text : text.slice(0, slash);
  const protocol = protocolOf(slash < 0 ? "tcp" : text.slice(slash + 1));
  if (protocol === "ICMP") return withPort(bare(place), 0, protocol);
  const colon = place.lastIndexOf(":");
  const portText = place.slice(colon + 1);
  const addressText = place.slice(0, Math.max(0, colon));
  if (protocol === undefined || !/^\d{1,5}$/.test(portText)) return undefined;
  // Without brackets, the port cannot be distinguished from the IPv6 address.
  if (addressText.includes(":") && !addressText.startsWith("[")) return undefined;
  const port = Number(portText);
  return port < 1 || port > 65_535 ? undefined : withPort(bare(addressText), port, protocol);
}

function withPort(
  addressText: string,
  port: number,
  protocol: Destination["protocol"],
): Destination | undefined {
  const address: IpAddress | undefined = parseIpAddress(addressText);
  return address === undefined ? undefined : { protocol, address, port };
}

function bare(text: string): string {
  return /^\[.*\]$/.test(text) ? text.slice(1, -1) : text;
}

function protocolOf(text: string): Destination["protocol"] | undefined {
  const name = text.toUpperCase();
  return name === "TCP" || name === "UDP" || name === "SCTP" || name === "ICMP" ? name : undefined;
}

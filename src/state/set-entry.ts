import {
  type Cidr,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseCidr,
  parseIpAddress,
} from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";

/**
 * An ipset entry in the canonical form that `ipset list` prints. Two entries are the same if and only if their texts
 * are equal.
 *
 * | set type | text |
 * |---|---|
 * | hash:ip | `10.96.0.1` |
 * | hash:ip,port | `10.96.0.1,tcp:443` |
 * | hash:ip,port,ip | `10.244.1.5,tcp:8080,10.244.1.5` |
 * | hash:ip,port,net | `203.0.113.10,tcp:443,198.51.100.0/24`; a single host has no prefix length |
 * | bitmap:port | `30080` |
 */
export type SetEntry = string & { readonly __brand: "SetEntry" };

export function addressEntry(address: IpAddress): SetEntry {
  return address as string as SetEntry;
}

/** Returns the first address of an entry, as text. */
export function addressOf(entry: SetEntry): string {
  const end = entry.indexOf(",");
  return end < 0 ? entry : entry.slice(0, end);
}

/** No set has entries for firewall marks. */
export function addressPortEntry(
  address: IpAddress,
  protocol: Protocol | "FWM",
  port: number,
): SetEntry {
  // `join` creates a flat string. A template would keep its parts in memory for each of tens of thousands of entries.
  return [address, ",", protocol.toLowerCase(), ":", port].join("") as SetEntry;
}

export function addressPortAddressEntry(
  address: IpAddress,
  protocol: Protocol,
  port: number,
  second: IpAddress,
): SetEntry {
  return `${address},${protocol.toLowerCase()}:${port},${second}` as SetEntry;
}

/** Omits the prefix length of a single host, as ipset does, because the text is compared with the kernel's entries. */
export function addressPortNetEntry(
  address: IpAddress,
  protocol: Protocol,
  port: number,
  net: Cidr,
): SetEntry {
  const isHost = net.prefixLength === hostPrefixLength(familyOf(net.address));
  const netText = isHost ? net.address : `${net.address}/${net.prefixLength}`;
  return `${address},${protocol.toLowerCase()}:${port},${netText}` as SetEntry;
}

export function portEntry(port: number): SetEntry {
  return String(port) as SetEntry;
}

/** The values in an entry. The set type determines which are defined. */
export interface SetEntryFields {
  readonly address?: IpAddress;
  readonly protocol?: Protocol;
  readonly port?: number;
  /** Second address or network, for types with three parts. A single host has the full prefix length. */
  readonly second?: Cidr;
}

/** Parses an entry for encoding. Throws RangeError if none of the functions above could have created the text. */
export function setEntryFields(entry: SetEntry): SetEntryFields {
  if (/^\d+$/.test(entry)) return { port: Number(entry) };
  const [addressText = "", portText, secondText] = entry.split(",");
  const address = parseIpAddress(addressText);
  if (address === undefined) throw new RangeError(`Not a set entry: ${entry}`);
  if (portText === undefined) return { address };
  const colon = portText.indexOf(":");
  const protocol = portText.slice(0, colon).toUpperCase() as Protocol;
  const port = Number(portText.slice(colon + 1));
  if (secondText === undefined) return { address, protocol, port };
  const second = parseCidr(
    secondText.includes("/") ? secondText : `${secondText}/${hostPrefixLength(familyOf(address))}`,
  );
  if (second === undefined) throw new RangeError(`Not a set entry: ${entry}`);
  return { address, protocol, port, second };
}

/** IP addresses and CIDRs as canonical text. Only codecs use bytes. Pure. */

/** The names of the two families in Kubernetes (Service `spec.ipFamilies`, metric label `ip_family`). */
export type IpFamily = "IPv4" | "IPv6";

export const ipFamilies: readonly IpFamily[] = ["IPv4", "IPv6"];

/**
 * An address in canonical text form: IPv4 dotted decimal without leading zeros, IPv6 as in RFC 5952
 * (lower case, longest run of zeros compressed). Only {@link parseIpAddress} and
 * {@link ipAddressFromBytes} create these texts, so addresses can be compared with `===`.
 */
export type IpAddress = string & { readonly __brand: "IpAddress" };

/** A network: canonical address with the host bits cleared, and a prefix length (0–32 or 0–128). */
export interface Cidr {
  readonly address: IpAddress;
  readonly prefixLength: number;
}

export function familyOf(address: IpAddress): IpFamily {
  return address.includes(":") ? "IPv6" : "IPv4";
}

/** The unspecified address of each family. */
export const wildcardAddresses: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: "0.0.0.0" as IpAddress,
  IPv6: "::" as IpAddress,
};

/** True for the unspecified addresses, which stand for all addresses of a node. */
export function isWildcard(address: string): boolean {
  return address === "0.0.0.0" || address === "::";
}

/** The prefix length that means "this host only": 32 or 128. */
export function hostPrefixLength(family: IpFamily): number {
  return family === "IPv4" ? 32 : 128;
}

/**
 * Parses an address; returns `undefined` if it is invalid. As in Kubernetes, octets with leading zeros are decimal
 * (`010.0.0.1` is 10.0.0.1), and an IPv4-mapped IPv6 address (`::ffff:10.0.0.1`) becomes the IPv4 address. Zones
 * (`fe80::1%eth0`) and blanks are invalid.
 */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (text.length > 45) return undefined;
  if (text.includes(":")) {
    const bytes = parseIpv6(text);
    return bytes === undefined ? undefined : ipAddressFromBytes(bytes);
  }
  if (!readIpv4(text, octets)) return undefined;
  // Returns the text itself if it is canonical: formatting costs more than parsing, and a first sync parses tens of
  // thousands of addresses.
  return paddedOctet.test(text) ? ipAddressFromBytes(octets) : (text as IpAddress);
}

/** Reused by {@link parseIpAddress}, because a new typed array takes a quarter of a kilobyte. */
const octets = new Uint8Array(4);

const paddedOctet = /(?:^|\.)0\d/;

/** Parses `10.0.0.0/8` or `fd00::/64` and clears the host bits. Returns `undefined` if it is invalid. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/");
  if (slash < 0) return undefined;
  const address = parseIpAddress(text.slice(0, slash));
  const lengthText = text.slice(slash + 1);
  if (address === undefined || !/^\d{1,3}$/.test(lengthText)) return undefined;
  const prefixLength = Number(lengthText);
  if (prefixLength > hostPrefixLength(familyOf(address))) return undefined;
  return { address: maskAddress(address, prefixLength), prefixLength };
}

/** Formats a network as `address/length`. */
export function cidrText(cidr: Cidr): string {
  return `${cidr.address}/${cidr.prefixLength}`;
}

/** Whether `cidr` contains `address`; false if their families differ. */
export function cidrContains(cidr: Cidr, address: IpAddress): boolean {
  if (familyOf(cidr.address) !== familyOf(address)) return false;
  return maskAddress(address, cidr.prefixLength) === cidr.address;
}

/** The last address of an IPv4 network. Undefined for /31 (RFC 3021) and /32 networks, and for IPv6. */
export function broadcastOf(cidr: Cidr): IpAddress | undefined {
  if (familyOf(cidr.address) === "IPv6" || cidr.prefixLength > 30) return undefined;
  return lastAddressOf(cidr);
}

/** The last address of a network: all host bits are set. */
export function lastAddressOf({ address, prefixLength }: Cidr): IpAddress {
  const bytes = ipAddressToBytes(address);
  return ipAddressFromBytes(
    bytes.map((byte, index) => byte | (0xff >> Math.min(8, Math.max(0, prefixLength - index * 8)))),
  );
}

/** True for 127.0.0.0/8 and ::1. */
export function isLoopback(address: IpAddress): boolean {
  return address.startsWith("127.") || address === "::1";
}

/** True for fe80::/10. As in Kubernetes, addresses in 169.254.0.0/16 are treated like ordinary addresses. */
export function isIpv6LinkLocal(address: IpAddress): boolean {
  return /^fe[89ab][0-9a-f]:/.test(address);
}

/** True for fe80::/10 and 169.254.0.0/16. */
export function isLinkLocal(address: IpAddress): boolean {
  return address.startsWith("169.254.") || isIpv6LinkLocal(address);
}

/** Returns 4 or 16 bytes in network order. Throws if `address` is not canonical. */
export function ipAddressToBytes(address: IpAddress): Uint8Array {
  const bytes = address.includes(":") ? parseIpv6(address) : parseIpv4(address);
  if (bytes === undefined) throw notCanonical(address);
  return bytes;
}

/** Writes 4 or 16 bytes in network order at offset `at`. */
export function writeIpAddress(address: IpAddress, into: Uint8Array, at: number): void {
  if (address.includes(":")) into.set(ipAddressToBytes(address), at);
  else if (!readIpv4(address, into, at)) throw notCanonical(address);
}

function notCanonical(address: string): Error {
  return new Error(`Not a canonical address: ${address}`);
}

/** Returns the canonical text of 4 or 16 bytes in network order. An IPv4-mapped IPv6 address becomes IPv4. */
export function ipAddressFromBytes(bytes: Uint8Array): IpAddress {
  if (bytes.length === 4) return bytes.join(".") as IpAddress;
  if (bytes.length !== 16)
    throw new RangeError(`An address has 4 or 16 bytes, not ${bytes.length}`);
  if (isMapped(bytes)) return bytes.subarray(12).join(".") as IpAddress;
  return ipv6Text(bytes) as IpAddress;
}

/** An address and port: `10.0.0.1:80` or `[fd00::1]:80`. Identifies an endpoint or real server. */
export type HostPort = string & { readonly __brand: "HostPort" };

export function hostPort(address: string, port: number): HostPort {
  return (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`) as HostPort;
}

const dot = 0x2e;
const zero = 0x30;

function parseIpv4(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(4);
  return readIpv4(text, bytes) ? bytes : undefined;
}

/**
 * Parses an IPv4 address into four bytes at offset `start`; false if it is invalid. Reads character by character:
 * splitting the text takes four times as long, and a first sync parses hundreds of thousands of addresses.
 */
function readIpv4(text: string, bytes: Uint8Array, start = 0): boolean {
  let count = 0;
  let value = -1;
  for (let at = 0; at <= text.length; at += 1) {
    const code = at === text.length ? dot : text.charCodeAt(at);
    if (code === dot) {
      if (value < 0 || count === 4) return false;
      bytes[start + count] = value;
      count += 1;
      value = -1;
    } else {
      const digit = code - zero;
      if (digit < 0 || digit > 9) return false;
      value = Math.max(value, 0) * 10 + digit;
      if (value > 255) return false;
    }
  }
  return count === 4;
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? "", halves.length === 1);
  const tail = parseGroups(halves[1] ?? "", true);
  if (head === undefined || tail === undefined) return undefined;
  const missing = 16 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined;
  const bytes = new Uint8Array(16);
  bytes.set(head, 0);
  bytes.set(tail, 16 - tail.length);
  return bytes;
}

/** Parses colon-separated groups into bytes. If `mayEndDotted`, the last group may be an IPv4 address. */
function parseGroups(text: string, mayEndDotted: boolean): number[] | undefined {
  const bytes: number[] = [];
  if (text === "") return bytes;
  const groups = text.split(":");
  for (const [index, group] of groups.entries()) {
    if (mayEndDotted && index === groups.length - 1 && group.includes(".")) {
      const dotted = parseIpv4(group);
      if (dotted === undefined) return undefined;
      bytes.push(...dotted);
      continue;
    }
    if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return undefined;
    const value = Number.parseInt(group, 16);
    bytes.push(value >> 8, value & 0xff);
  }
  return bytes;
}

function isMapped(bytes: Uint8Array): boolean {
  return bytes.every((byte, index) => index >= 12 || byte === (index < 10 ? 0 : 0xff));
}

function ipv6Text(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, 16);
  const groups = Array.from({ length: 8 }, (_, index) => view.getUint16(index * 2));
  const { start, length } = longestZeroRun(groups);
  const hex = groups.map((group) => group.toString(16));
  if (length < 2) return hex.join(":");
  return `${hex.slice(0, start).join(":")}::${hex.slice(start + length).join(":")}`;
}

function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: -1, length: 0 };
  let start = 0;
  for (const [index, group] of [...groups, 1].entries()) {
    if (group === 0) continue;
    if (index - start > best.length) best = { start, length: index - start };
    start = index + 1;
  }
  return best;
}

function maskAddress(address: IpAddress, prefixLength: number): IpAddress {
  const bytes = ipAddressToBytes(address);
  const masked = bytes.map((byte, index) => {
    const keptBits = Math.min(8, Math.max(0, prefixLength - index * 8));
    return byte & (0xff << (8 - keptBits));
  });
  // An IPv6 network with an IPv4-mapped prefix must not become an IPv4 network.
  return bytes.length === 16 ? (ipv6Text(masked) as IpAddress) : ipAddressFromBytes(masked);
}

/**
 * Real servers read from /proc/net/ip_vs: the whole table in few reads, where netlink takes a dump per
 * virtual server. See docs/decisions/0002-reading-ipvs-state.md. The format (net/netfilter/ipvs/ip_vs_ctl.c):
 *
 *     TCP  0A600001:01BB rr
 *       -> 0AF40105:192B      Masq    1      0          0
 *     UDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr persistent 1080000 FFFFFFFF
 *       -> [fd00:0244:0000:0000:0000:0000:0000:0005]:14E9      Masq    1      0          0
 *     FWM  00000007 rr
 *
 * The kernel writes a virtual server and all its real servers in one piece.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { type IpAddress, parseIpAddress } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { DecodeError } from "../../netlink/errors.ts";
import type { ObservedRealServer } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";

/** Real servers by the key of their virtual server. */
export type RealServerTable = ReadonlyMap<string, readonly ObservedRealServer[]>;

const READ_BYTES = 256 * 1024;

/** ip_vs_fwd_name(): the forwarding methods in the order of IP_VS_CONN_F_FWD_MASK. */
const forwardingNames: readonly string[] = ["Masq", "Local", "Tunnel", "Route", "Bypass"];

/** Reads the file of the calling thread's network namespace. Throws the file system's errors. */
export function readProcTable(): string {
  const file = openSync("/proc/net/ip_vs", "r");
  try {
    const chunks: string[] = [];
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    for (;;) {
      const count = readSync(file, buffer, 0, READ_BYTES, null);
      if (count === 0) return chunks.join("");
      chunks.push(buffer.toString("latin1", 0, count));
    }
  } finally {
    closeSync(file);
  }
}

export function parseProcTable(text: string): RealServerTable {
  const table = new Map<string, ObservedRealServer[]>();
  let realServers: ObservedRealServer[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("  -> ")) {
      if (!line.includes(":Port")) realServers.push(parseRealServer(line));
    } else if (/^(TCP|UDP|SCTP) /.test(line)) {
      realServers = [];
      table.set(parseVirtualServer(line), realServers);
    } else {
      realServers = [];
    }
  }
  return table;
}

function parseVirtualServer(line: string): string {
  const [protocol = "", place = ""] = line.split(/ +/, 2);
  return virtualServerKey({ protocol: protocol as Protocol, ...parsePlace(place) });
}

function parseRealServer(line: string): ObservedRealServer {
  const fields = line.slice(5).trim().split(/ +/);
  return {
    ...parsePlace(fields[0] ?? ""),
    weight: Number(fields[2]),
    forwardingMethod: forwardingNames.indexOf(fields[1] ?? ""),
    activeConnections: Number(fields[3]),
    inactiveConnections: Number(fields[4]),
    persistentConnections: 0,
  };
}

function parsePlace(text: string): { address: IpAddress; port: number } {
  const colon = text.lastIndexOf(":");
  const port = Number.parseInt(text.slice(colon + 1), 16);
  const address = text.startsWith("[")
    ? parseIpAddress(text.slice(1, colon - 1))
    : ipv4OfHex(text.slice(0, colon));
  if (address === undefined) throw new DecodeError(`/proc/net/ip_vs: ${text}`, 0);
  return { address, port };
}

function ipv4OfHex(hex: string): IpAddress {
  const value = Number.parseInt(hex, 16);
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}` as IpAddress;
}

/** The IPVS connection table, /proc/net/ip_vs_conn. Netlink has no request for it. */
import { closeSync, openSync, readSync } from "node:fs";
import { type IpAddress, ipAddressFromBytes } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import type { RealServerId } from "../../state/real-server.ts";
import {
  type ServerKey,
  type VirtualServerId,
  virtualServerKey,
} from "../../state/virtual-server.ts";

export interface IpvsConnection {
  readonly client: IpAddress;
  /** 0 for a persistence template, which sends a client's new connections to the same real server. */
  readonly clientPort: number;
  readonly virtualServer: VirtualServerId;
  readonly realServer: RealServerId;
  /** `ESTABLISHED`, `FIN_WAIT`, `UDP` and so on. */
  readonly state: string;
  readonly expiresInSeconds: number;
}

/** The contents depend on the network namespace of the thread that opens the file. */
const tablePath = "/proc/thread-self/net/ip_vs_conn";
const pieceBytes = 1 << 16;

/**
 * Returns the entries for which `isWanted` is true, in table order. The table is read in pieces, so a million entries
 * are never in memory at the same time. Returns an empty list if IPVS is not loaded. Throws if the file cannot be read.
 */
export function listConnections(
  isWanted: (connection: IpvsConnection) => boolean,
  path: string = tablePath,
): readonly IpvsConnection[] {
  const found: IpvsConnection[] = [];
  for (const line of linesOf(path)) {
    const connection = parseConnection(line);
    if (connection !== undefined && isWanted(connection)) found.push(connection);
  }
  return found;
}

/** States of TCP and SCTP connections from the client's first packet until the connection starts to close. */
const establishedStates: ReadonlySet<string> = new Set(["ESTABLISHED", "SYN_RECV", "SYNACK"]);

/**
 * Returns whether a connection through one of these virtual servers (given by key) is established. Yields after each
 * line, and stops at the first such connection. The kernel's counts of active connections are unsuitable, because they
 * include the state SYN_SENT. An entry has that state if other software routes a new connection with the same ports
 * around IPVS, so that IPVS sees only the replies.
 */
export function* findEstablished(
  keys: ReadonlySet<ServerKey>,
  path: string = tablePath,
): Generator<void, boolean> {
  for (const line of linesOf(path)) {
    yield;
    const connection = parseConnection(line);
    if (connection === undefined || !establishedStates.has(connection.state)) continue;
    if (keys.has(virtualServerKey(connection.virtualServer))) return true;
  }
  return false;
}

function* linesOf(path: string): Generator<string> {
  const file = openTable(path);
  if (file === undefined) return;
  const piece = Buffer.alloc(pieceBytes);
  let rest = "";
  try {
    for (let length = readSync(file, piece); length > 0; length = readSync(file, piece)) {
      const lines = (rest + piece.toString("latin1", 0, length)).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    closeSync(file);
  }
}

function openTable(path: string): number | undefined {
  try {
    return openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

const protocolNames: ReadonlySet<string> = new Set<Protocol>(["TCP", "UDP", "SCTP"]);

/**
 * Parses, for example, `TCP C0A80A01 C350 0A60000A 0050 0AF4010A 1F90 ESTABLISHED 899`; IPv6 addresses are printed in
 * full, with colons. Undefined for the title line and for entries that cannot belong to our virtual servers. Pure.
 */
export function parseConnection(line: string): IpvsConnection | undefined {
  const [protocol = "", ...words] = line.trim().split(/\s+/);
  if (!protocolNames.has(protocol)) return undefined;
  const [client, virtual, real] = [0, 2, 4].map((at) => addressOf(words[at] ?? ""));
  const [clientPort, port, realPort] = [1, 3, 5].map((at) => Number.parseInt(words[at] ?? "", 16));
  if (client === undefined || virtual === undefined || real === undefined) return undefined;
  return {
    client,
    clientPort: clientPort ?? 0,
    virtualServer: { protocol: protocol as Protocol, address: virtual, port: port ?? 0 },
    realServer: { address: real, port: realPort ?? 0 },
    state: words[6] ?? "",
    expiresInSeconds: Number(words[7] ?? 0),
  };
}

/** Parses `0A60000A` or `fd00:0096:0000:…`. */
function addressOf(text: string): IpAddress | undefined {
  const digits = text.replaceAll(":", "");
  const isAddress = /^[0-9a-f]+$/i.test(digits) && (digits.length === 8 || digits.length === 32);
  return isAddress ? ipAddressFromBytes(Buffer.from(digits, "hex")) : undefined;
}

/** Listening sockets in this network namespace: /proc/net/tcp, udp, tcp6 and udp6. */
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { type IpAddress, ipAddressFromBytes } from "../base/ip.ts";

export interface ListeningSocket {
  readonly protocol: "TCP" | "UDP";
  /** `0.0.0.0` and `::` stand for every address. */
  readonly address: IpAddress;
  readonly port: number;
  /** The user who created the socket; 65534 if the user is not mapped in our user namespace. */
  readonly uid: number;
}

/** Skips the files tcp6 and udp6 if the kernel has no IPv6. Throws if a file cannot be read. */
export function listListeningSockets(): readonly ListeningSocket[] {
  return (["TCP", "UDP"] as const).flatMap((protocol) =>
    ["", "6"].flatMap((suffix) => {
      const path = `/proc/net/${protocol.toLowerCase()}${suffix}`;
      return existsSync(path) ? parseSockets(readTable(path, protocol), protocol) : [];
    }),
  );
}

const chunkBytes = 65_536;

/**
 * Reads the table. For TCP, stops after a chunk without listening sockets, because the kernel prints those first and
 * hundreds of thousands of connections may follow.
 */
function readTable(path: string, protocol: ListeningSocket["protocol"]): string {
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.alloc(chunkBytes);
    let text = "";
    for (;;) {
      const length = readSync(file, chunk);
      const part = chunk.toString("latin1", 0, length);
      text += part;
      if (length === 0) return text;
      if (protocol === "TCP" && text.length > chunkBytes && !part.includes(" 0A ")) return text;
    }
  } finally {
    closeSync(file);
  }
}

/**
 * Parses ` 0: 0100007F:2808 00000000:0000 0A …`. State 0A is LISTEN; state 07 is a datagram socket, which is
 * unconnected if the remote port is 0. The next fields are queues, timers and retransmissions, then the user ID.
 */
export function parseSockets(
  table: string,
  protocol: ListeningSocket["protocol"],
): readonly ListeningSocket[] {
  const state = protocol === "TCP" ? "0A" : "07";
  const line = new RegExp(
    `^ *\\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:0000 ${state}(?: +\\S+){3} +(\\d+)`,
    "gm",
  );
  return [...table.matchAll(line)].map(([, words = "", port = "", uid]) => {
    return {
      protocol,
      address: addressOf(words),
      port: Number.parseInt(port, 16),
      uid: Number(uid),
    };
  });
}

/**
 * The address is printed as 32-bit words in host byte order, so on amd64 and arm64 the bytes of each word are
 * reversed.
 */
function addressOf(words: string): IpAddress {
  return ipAddressFromBytes(Buffer.from(words, "hex").swap32());
}

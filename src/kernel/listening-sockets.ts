/** Where processes of this network namespace listen: /proc/net/tcp and its like. */
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { type IpAddress, parseIpAddress } from "../base/ip.ts";

export interface ListeningSocket {
  readonly protocol: "TCP" | "UDP";
  /** `0.0.0.0`, `::`: every address. */
  readonly address: IpAddress;
  readonly port: number;
  /** The user whose process made it; in user namespaces without a name for him 65534. */
  readonly uid: number;
}

/** A kernel without IPv6 has no files for it. Throws where a file cannot be read. */
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
 * The table, of TCP only until no line of a chunk is of a socket that listens: the kernel prints those first, and there may
 * be a hundred thousand connections behind them.
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
 * `   0: 0100007F:2808 00000000:0000 0A …`: 0A is LISTEN, and 07 a datagram socket, which is connected to nobody where the
 * other port is 0. Behind that stand queues, timers and retransmissions, then the user.
 */
export function parseSockets(
  table: string,
  protocol: ListeningSocket["protocol"],
): readonly ListeningSocket[] {
  const state = protocol === "TCP" ? "0A" : "07";
  const line = new RegExp(
    `^ *\\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]+:0000 ${state}(?: +\\S+){3} +(\\d+)`,
    "gm",
  );
  return [...table.matchAll(line)].flatMap(([, words = "", port = "", uid]) => {
    const address = addressOf(words);
    if (address === undefined) return [];
    return [{ protocol, address, port: Number.parseInt(port, 16), uid: Number(uid) }];
  });
}

/** Words of 32 bits, each printed as a number of this machine: its bytes stand in reverse order on amd64 and arm64. */
function addressOf(words: string): IpAddress | undefined {
  const bytes = (words.match(/.{8}/g) ?? []).flatMap((word) => (word.match(/../g) ?? []).reverse());
  if (bytes.length === 4)
    return parseIpAddress(bytes.map((one) => Number.parseInt(one, 16)).join("."));
  const groups = bytes.join("").match(/.{4}/g) ?? [];
  return parseIpAddress(groups.join(":"));
}

/**
 * Real servers read from /proc/net/ip_vs: all of them in few reads, where netlink takes a dump per virtual
 * server. See docs/decisions/0002-reading-ipvs-state.md. The format (net/netfilter/ipvs/ip_vs_ctl.c):
 *
 *     TCP  0A600001:01BB rr
 *       -> 0AF40105:192B      Masq    1      0          0
 *     UDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr persistent 1080000 FFFFFFFF
 *       -> [fd00:0244:0000:0000:0000:0000:0000:0005]:14E9      Masq    1      0          0
 *     FWM  00000007 rr
 *
 * A virtual server and all its real servers come in one piece; between two of them the table may change.
 */
import { closeSync, openSync, readSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import { Exclusive } from "../../base/exclusive.ts";
import { type IpAddress, ipAddressFromBytes, parseIpAddress } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { TimeSlice } from "../../base/time-slice.ts";
import { DecodeError } from "../../netlink/errors.ts";
import type { ObservedRealServer } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";

/** Real servers by the key of their virtual server. */
export type RealServerTable = ReadonlyMap<string, readonly ObservedRealServer[]>;

/** Of the reading thread's network namespace. */
export const PROC_TABLE_PATH = "/proc/net/ip_vs";
const READ_BYTES = 64 * 1024;

/** ip_vs_fwd_name(): the forwarding methods in the order of IP_VS_CONN_F_FWD_MASK. */
const forwardingNames: readonly string[] = ["Masq", "Local", "Tunnel", "Route", "Bypass"];

/** The open file: it goes on showing the network namespace in which it was opened, as a socket does. */
export class ProcTable {
  readonly #clock: Clock;
  readonly #file: number;
  readonly #exclusive = new Exclusive();
  #isClosed = false;

  /** Throws the file system's errors. */
  constructor(clock: Clock, path: string) {
    this.#clock = clock;
    this.#file = openSync(path, "r");
  }

  /** Reads on the calling thread: a read returns a page, and there are hundreds. Others get their turn. */
  read(): Promise<RealServerTable> {
    return this.#exclusive.run(async () => {
      const slice = new TimeSlice(this.#clock, "large");
      const parser = new ProcTableParser();
      const buffer = Buffer.allocUnsafe(READ_BYTES);
      for (let position = 0; ; ) {
        const count = readSync(this.#file, buffer, 0, READ_BYTES, position);
        if (count === 0) return parser.finish();
        position += count;
        parser.take(buffer.toString("latin1", 0, count));
        const pause = slice.pause();
        if (pause !== undefined) await pause;
      }
    });
  }

  /** Closing twice is fine. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.#file);
  }
}

/** Takes the text in pieces of any size. Throws DecodeError. */
export class ProcTableParser {
  readonly #table = new Map<string, ObservedRealServer[]>();
  /** Of the virtual server whose lines are being read; undefined where it has no address. */
  #realServers: ObservedRealServer[] | undefined;
  #rest = "";
  #offset = 0;

  take(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#takeLine(line);
      this.#offset += line.length + 1;
    }
  }

  finish(): RealServerTable {
    if (this.#rest !== "")
      throw new DecodeError(`${PROC_TABLE_PATH} ends in «${this.#rest}»`, this.#offset);
    return this.#table;
  }

  #takeLine(line: string): void {
    if (line.startsWith("  -> ")) {
      if (!line.startsWith("  -> RemoteAddress")) this.#realServers?.push(this.#realServer(line));
      return;
    }
    const [, protocol, place] = /^(TCP|UDP|SCTP) +(\S+) /.exec(line) ?? [];
    this.#realServers = undefined;
    if (protocol === undefined || place === undefined) return;
    this.#realServers = [];
    const id = { protocol: protocol as Protocol, ...this.#place(place) };
    this.#table.set(virtualServerKey(id), this.#realServers);
  }

  #realServer(line: string): ObservedRealServer {
    const fields = /^ {2}-> (\S+) +(\S+) +(\d+) +(\d+) +(\d+)/.exec(line);
    if (fields === null) throw this.#unreadable(line);
    const [, place = "", forwarding = "", weight, active, inactive] = fields;
    const forwardingMethod = forwardingNames.indexOf(forwarding);
    if (forwardingMethod < 0) throw this.#unreadable(line);
    return {
      ...this.#place(place),
      weight: Number(weight),
      forwardingMethod,
      activeConnections: Number(active),
      inactiveConnections: Number(inactive),
      persistentConnections: 0,
    };
  }

  #place(text: string): { readonly address: IpAddress; readonly port: number } {
    const [, ipv6, hex, port] =
      /^(?:\[([0-9a-f:]+)\]|([0-9A-F]{8})):([0-9A-F]{4})$/.exec(text) ?? [];
    const address = ipv6 === undefined ? ipv4OfHex(hex) : parseIpAddress(ipv6);
    if (address === undefined || port === undefined) throw this.#unreadable(text);
    return { address, port: Number.parseInt(port, 16) };
  }

  #unreadable(text: string): DecodeError {
    return new DecodeError(`${PROC_TABLE_PATH}: «${text}»`, this.#offset);
  }
}

function ipv4OfHex(hex: string | undefined): IpAddress | undefined {
  if (hex === undefined) return undefined;
  const value = Number.parseInt(hex, 16);
  const octets = [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
  return ipAddressFromBytes(Uint8Array.of(...octets));
}

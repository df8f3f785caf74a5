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
import { hashOfBytes } from "../../netlink/byte-hash.ts";
import { DecodeError } from "../../netlink/errors.ts";
import { type RealServer, sameRealServers } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { FamiliarServers } from "../kernel.ts";

/** Real servers by the key of their virtual server. */
export type RealServerTable = ReadonlyMap<string, readonly RealServer[]>;

const nothingFamiliar: FamiliarServers = () => undefined;

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
  #seen: SeenBlocks = new Map();
  #isClosed = false;

  /** Throws the file system's errors. */
  constructor(clock: Clock, path: string) {
    this.#clock = clock;
    this.#file = openSync(path, "r");
  }

  /**
   * Reads on the calling thread: a read returns a page, and there are hundreds. Others get their turn. A list that
   * is as the familiar one is that list itself: a large table is not in memory twice.
   */
  read(familiar: FamiliarServers = nothingFamiliar): Promise<RealServerTable> {
    return this.#exclusive.run(async () => {
      const slice = new TimeSlice(this.#clock, "large");
      const parser = new ProcTableParser(this.#seen, familiar);
      const buffer = Buffer.allocUnsafe(READ_BYTES);
      for (let position = 0; ; ) {
        const count = readSync(this.#file, buffer, 0, READ_BYTES, position);
        if (count === 0) {
          const table = parser.finish();
          this.#seen = parser.blocks;
          return table;
        }
        position += count;
        parser.take(buffer.subarray(0, count));
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

/** What was made of a virtual server's lines. Nothing where they are of none with an address. */
type Block = readonly [key: string, realServers: readonly RealServer[]] | undefined;

/** By a hash of 53 bits: the lines of a table that was read before. */
export type SeenBlocks = ReadonlyMap<number, Block>;

const newLine = 0x0a;
const blank = 0x20;

/**
 * Takes the text in pieces of any size. A virtual server whose lines are those of `seen` byte by byte, connection
 * counts too, costs their hash and nothing else, and has the same list as then. Throws DecodeError.
 */
export class ProcTableParser {
  readonly #seen: SeenBlocks;
  readonly #familiar: FamiliarServers;
  readonly #blocks = new Map<number, Block>();
  readonly #table = new Map<string, readonly RealServer[]>();
  /** Begins with the lines of the virtual server that is being read. */
  #bytes = Buffer.allocUnsafe(2 * READ_BYTES);
  #view = viewOf(this.#bytes);
  #length = 0;
  #isLineStart = true;
  /** Of the first byte in `#bytes`. */
  #offset = 0;

  constructor(seen: SeenBlocks = new Map(), familiar: FamiliarServers = nothingFamiliar) {
    this.#seen = seen;
    this.#familiar = familiar;
  }

  /** To be given to the parser of the next table. */
  get blocks(): SeenBlocks {
    return this.#blocks;
  }

  take(piece: Uint8Array): void {
    const from = this.#length;
    this.#append(piece);
    const start = this.#scan(from);
    this.#bytes.copyWithin(0, start, this.#length);
    this.#length -= start;
    this.#offset += start;
  }

  finish(): RealServerTable {
    if (!this.#isLineStart) {
      const rest = this.#bytes.toString("latin1", 0, this.#length).split("\n").at(-1) ?? "";
      throw new DecodeError(
        `${PROC_TABLE_PATH} ends in «${rest}»`,
        this.#offset + this.#length - rest.length,
      );
    }
    this.#endBlock(0, this.#length);
    return this.#table;
  }

  #append(piece: Uint8Array): void {
    const needed = this.#length + piece.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(2 * needed);
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
      this.#view = viewOf(larger);
    }
    this.#bytes.set(piece, this.#length);
    this.#length = needed;
  }

  /** Ends each block behind which another one begins; gives the start of the last. Every byte of a table passes here. */
  #scan(from: number): number {
    const [bytes, length] = [this.#bytes, this.#length];
    let start = 0;
    let isLineStart = this.#isLineStart;
    for (let at = from; at < length; at += 1) {
      const byte = bytes[at] as number;
      if (isLineStart && byte !== blank) {
        this.#endBlock(start, at);
        start = at;
      }
      isLineStart = byte === newLine;
    }
    this.#isLineStart = isLineStart;
    return start;
  }

  #endBlock(start: number, end: number): void {
    if (start === end) return;
    const hash = hashOfBytes(this.#view, start, end);
    const read = this.#seen.has(hash) ? this.#seen.get(hash) : this.#readBlock(start, end);
    const block = read && this.#shared(read);
    this.#blocks.set(hash, block);
    if (block !== undefined) this.#table.set(...block);
  }

  #shared(block: NonNullable<Block>): Block {
    const [key, realServers] = block;
    const familiar = this.#familiar(key);
    if (familiar === undefined || familiar === realServers) return block;
    return sameRealServers(familiar, realServers) ? [key, familiar] : block;
  }

  #readBlock(start: number, end: number): Block {
    const [head = "", ...lines] = this.#bytes.toString("latin1", start, end - 1).split("\n");
    const offset = this.#offset + start;
    const [, protocol, place] = /^(TCP|UDP|SCTP) +(\S+) /.exec(head) ?? [];
    if (protocol === undefined || place === undefined) return undefined;
    const id = { protocol: protocol as Protocol, ...readPlace(place, offset) };
    let lineOffset = offset + head.length + 1;
    const realServers = lines.map((line) => {
      const realServer = readRealServer(line, lineOffset);
      lineOffset += line.length + 1;
      return realServer;
    });
    return [virtualServerKey(id), realServers];
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

function readRealServer(line: string, offset: number): RealServer {
  const fields = /^ {2}-> (\S+) +(\S+) +(\d+) +\d+ +\d+/.exec(line);
  if (fields === null) throw unreadable(line, offset);
  const [, place = "", forwarding = "", weight] = fields;
  const forwardingMethod = forwardingNames.indexOf(forwarding);
  if (forwardingMethod < 0) throw unreadable(line, offset);
  return {
    ...readPlace(place, offset),
    weight: Number(weight),
    forwardingMethod,
  };
}

function readPlace(
  text: string,
  offset: number,
): { readonly address: IpAddress; readonly port: number } {
  const [, ipv6, hex, port] = /^(?:\[([0-9a-f:]+)\]|([0-9A-F]{8})):([0-9A-F]{4})$/.exec(text) ?? [];
  const address = ipv6 === undefined ? ipv4OfHex(hex) : parseIpAddress(ipv6);
  if (address === undefined || port === undefined) throw unreadable(text, offset);
  return { address, port: Number.parseInt(port, 16) };
}

function unreadable(text: string, offset: number): DecodeError {
  return new DecodeError(`${PROC_TABLE_PATH}: «${text}»`, offset);
}

function ipv4OfHex(hex: string | undefined): IpAddress | undefined {
  if (hex === undefined) return undefined;
  const value = Number.parseInt(hex, 16);
  const octets = [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
  return ipAddressFromBytes(Uint8Array.of(...octets));
}

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
import { ByteHash } from "../../netlink/byte-hash.ts";
import { DecodeError } from "../../netlink/errors.ts";
import type { RealServer } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ServerBlock, ServerWithKey, TakeServerBlock } from "./server-block.ts";

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
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES);
  #isClosed = false;
  #lastBytes = 0;

  /** Throws the file system's errors. */
  constructor(clock: Clock, path: string) {
    this.#clock = clock;
    this.#file = openSync(path, "r");
  }

  /**
   * Gives each block to `take`, until that says no: false then. Reads on the calling thread: a read returns a page,
   * and there are hundreds. Others get their turn. Rejects with DecodeError, and with what `take` throws.
   */
  eachBlock(take: TakeServerBlock): Promise<boolean> {
    return this.#exclusive.run(async () => {
      const slice = new TimeSlice(this.#clock, "large");
      const splitter = new ProcTableSplitter(take);
      for (let position = 0; ; ) {
        const count = readSync(this.#file, this.#buffer, 0, READ_BYTES, position);
        if (count === 0) {
          this.#lastBytes = position;
          return splitter.finish();
        }
        position += count;
        if (!splitter.take(this.#buffer.subarray(0, count))) return false;
        const pause = slice.pause();
        if (pause !== undefined) await pause;
      }
    });
  }

  /** Of the table when it was last read to its end. */
  get lastBytes(): number {
    return this.#lastBytes;
  }

  /** Closing twice is fine. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.#file);
  }
}

const newLine = 0x0a;
const blank = 0x20;
const bracket = 0x5b;
/** «  -> 0AF40105:192B      Masq    1      0          0         » and its line end; IPv6 takes more. */
const ipv4LineBytes = 61;
const ipv6LineBytes = 94;
/** Where the address begins in such a line. */
const addressAt = 5;
/** Two counts of ten places each, with a blank before each. */
const countBytes = 22;

/**
 * Cuts the text, taken in pieces of any size, into blocks. Every byte of a table passes here, hundreds of times
 * while nothing changes: lines of real servers are all of one length, and are not searched for their ends.
 */
export class ProcTableSplitter {
  readonly #take: TakeServerBlock;
  readonly #block = new Block();
  /** Begins with the lines of the block that is being read. */
  #bytes = Buffer.allocUnsafe(2 * READ_BYTES);
  #length = 0;
  /** Of the first line whose end did not come yet. */
  #lineStart = 0;
  /** Of the first byte in `#bytes`. */
  #offset = 0;

  constructor(take: TakeServerBlock) {
    this.#take = take;
    this.#block.show(this.#bytes);
  }

  /** False when a block was refused. */
  take(piece: Uint8Array): boolean {
    this.#append(piece);
    let start = 0;
    for (;;) {
      const end = lineEnd(this.#bytes, this.#lineStart, this.#length);
      if (end < 0) break;
      if (this.#bytes[this.#lineStart] !== blank) {
        if (!this.#endBlock(start, this.#lineStart)) return false;
        start = this.#lineStart;
      }
      this.#lineStart = end + 1;
    }
    this.#bytes.copyWithin(0, start, this.#length);
    this.#length -= start;
    this.#lineStart -= start;
    this.#offset += start;
    return true;
  }

  /** The text is over. Throws DecodeError when it ends within a line. */
  finish(): boolean {
    if (this.#lineStart < this.#length) {
      const rest = this.#bytes.toString("latin1", this.#lineStart, this.#length);
      throw new DecodeError(`${PROC_TABLE_PATH} ends in «${rest}»`, this.#offset + this.#lineStart);
    }
    return this.#endBlock(0, this.#length);
  }

  #append(piece: Uint8Array): void {
    const needed = this.#length + piece.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(2 * needed);
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
      this.#block.show(larger);
    }
    this.#bytes.set(piece, this.#length);
    this.#length = needed;
  }

  #endBlock(start: number, end: number): boolean {
    if (start === end) return true;
    this.#block.move(start, end, this.#offset);
    return this.#take(this.#block);
  }
}

/** Position of the line's end; -1 where it is not there yet. */
function lineEnd(bytes: Buffer, start: number, length: number): number {
  const isIpv6 = bytes[start + addressAt] === bracket;
  const guess = start + (isIpv6 ? ipv6LineBytes : ipv4LineBytes) - 1;
  if (bytes[start] === blank && guess < length && bytes[guess] === newLine) return guess;
  const end = bytes.indexOf(newLine, start);
  return end < length ? end : -1;
}

/** The lines of one virtual server, or of whatever stands before the first. One object for all blocks. */
class Block implements ServerBlock {
  readonly #hash = new ByteHash();
  #bytes: Buffer = Buffer.alloc(0);
  #view: DataView = new DataView(this.#bytes.buffer);
  #start = 0;
  #end = 0;
  #offset = 0;

  show(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** `offset`: of the buffer's first byte in the text. */
  move(start: number, end: number, offset: number): void {
    this.#start = start;
    this.#end = end;
    this.#offset = offset;
  }

  hash(): number {
    this.#hash.start();
    for (let at = this.#start; at < this.#end; ) {
      const end = lineEnd(this.#bytes, at, this.#end);
      const counts = this.#bytes[at] === blank ? countBytes : 0;
      this.#hash.add(this.#view, at, Math.max(at, end - counts));
      at = end + 1;
    }
    return this.#hash.value;
  }

  read(): ServerWithKey | undefined {
    const text = this.#bytes.toString("latin1", this.#start, this.#end - 1);
    const [head = "", ...lines] = text.split("\n");
    const offset = this.#offset + this.#start;
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

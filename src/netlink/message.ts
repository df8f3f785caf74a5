/** Writes many netlink messages into one buffer, and reads replies message by message. See linux/netlink.h. */
import { type IpAddress, writeIpAddress } from "../base/ip.ts";
import { ByteReader, isLittleEndianHost } from "./byte-reader.ts";
import { DecodeError } from "./errors.ts";

/** struct nlmsghdr: u32 length, u16 type, u16 flags, u32 sequence number, u32 port ID. */
export const MESSAGE_HEADER_BYTES = 16;
/** struct nlattr: u16 length, u16 type. */
export const ATTRIBUTE_HEADER_BYTES = 4;
const MAX_ATTRIBUTE_BYTES = 0xffff;
const textEncoder = new TextEncoder();

/**
 * Writes messages one after the other into a growing buffer that is reused, so nothing is allocated per message. A
 * value that does not fit into its field causes a RangeError; numbers never wrap around.
 */
export class MessageWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(initialBytes: number = 128 * 1024) {
    this.#bytes = new Uint8Array(initialBytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** The written bytes; valid until the next write. */
  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
  }

  /** Discards everything after the first `length` bytes. */
  truncate(length: number): void {
    this.#length = Math.min(length, this.#length);
  }

  /** Writes a header and returns its position for {@link endMessage}. The kernel fills in the port ID. */
  beginMessage(type: number, flags: number, sequence: number): number {
    const start = this.#claim(MESSAGE_HEADER_BYTES);
    const view = this.#view;
    view.setUint32(start, 0);
    view.setUint16(start + 4, inRange(type, 0xffff), isLittleEndianHost);
    view.setUint16(start + 6, inRange(flags, 0xffff), isLittleEndianHost);
    view.setUint32(start + 8, inRange(sequence, 0xffffffff), isLittleEndianHost);
    view.setUint32(start + 12, 0);
    return start;
  }

  endMessage(start: number): void {
    this.#pad();
    this.#view.setUint32(start, this.#length - start, isLittleEndianHost);
  }

  /** Adds flags to a message that has already been written. */
  addFlags(start: number, flags: number): void {
    const present = this.#view.getUint16(start + 6, isLittleEndianHost);
    this.#view.setUint16(start + 6, present | flags, isLittleEndianHost);
  }

  /**
   * Writes an attribute header. `type` includes the NLA_F_* bits. The caller then writes the payload and calls
   * `endAttribute`.
   */
  beginAttribute(type: number): number {
    const start = this.#claim(ATTRIBUTE_HEADER_BYTES);
    this.#view.setUint16(start, 0);
    this.#view.setUint16(start + 2, inRange(type, 0xffff), isLittleEndianHost);
    return start;
  }

  /**
   * Fills in the attribute's length. Throws if it exceeds 16 bits, because the kernel would see a truncated length.
   */
  endAttribute(start: number): void {
    const length = this.#length - start;
    if (length > MAX_ATTRIBUTE_BYTES) {
      throw new RangeError(
        `Attribute of ${length} bytes exceeds netlink's limit of ${MAX_ATTRIBUTE_BYTES}`,
      );
    }
    this.#view.setUint16(start, length, isLittleEndianHost);
    this.#pad();
  }

  u8(value: number): void {
    const at = this.#claim(1);
    this.#view.setUint8(at, inRange(value, 0xff));
  }

  u16(value: number): void {
    const at = this.#claim(2);
    this.#view.setUint16(at, inRange(value, 0xffff), isLittleEndianHost);
  }

  u32(value: number): void {
    const at = this.#claim(4);
    this.#view.setUint32(at, inRange(value, 0xffffffff), isLittleEndianHost);
  }

  u16be(value: number): void {
    const at = this.#claim(2);
    this.#view.setUint16(at, inRange(value, 0xffff));
  }

  u32be(value: number): void {
    const at = this.#claim(4);
    this.#view.setUint32(at, inRange(value, 0xffffffff));
  }

  bytes(value: Uint8Array): void {
    const at = this.#claim(value.length);
    this.#bytes.set(value, at);
  }

  /** 4 or 16 bytes in network order. */
  ipAddress(address: IpAddress): void {
    const at = this.#claim(address.includes(":") ? 16 : 4);
    writeIpAddress(address, this.#bytes, at);
  }

  /** UTF-8 with a trailing NUL. */
  text(value: string): void {
    if (value.includes("\0"))
      throw new RangeError("Cannot send text that contains a NUL character");
    const start = this.#claim(value.length * 3 + 1);
    const { written } = textEncoder.encodeInto(value, this.#bytes.subarray(start));
    this.#bytes[start + written] = 0;
    this.#length = start + written + 1;
  }

  /** Writes byte by byte, because `fill` costs more for a few bytes of padding. */
  zeros(count: number): void {
    const start = this.#claim(count);
    for (let at = start; at < start + count; at += 1) this.#bytes[at] = 0;
  }

  #pad(): void {
    while ((this.#length & 3) !== 0) {
      const at = this.#claim(1);
      this.#bytes[at] = 0;
    }
  }

  /** Makes room for `count` bytes and returns their position. This may replace the buffer. */
  #claim(count: number): number {
    const start = this.#length;
    const end = start + count;
    if (end > this.#bytes.length) this.#grow(end);
    this.#length = end;
    return start;
  }

  #grow(needed: number): void {
    const larger = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

function inRange(value: number, max: number): number {
  if (value >>> 0 !== value || value > max) {
    throw new RangeError(`${value} does not fit a field of 0–${max}`);
  }
  return value;
}

export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** The socket that sent the request, in nf_tables replies and notifications. */
  readonly portId: number;
  /** Everything after the netlink header. */
  readonly body: ByteReader;
}

/** Yields the messages of a reply one by one. Throws DecodeError for an invalid length. */
export function* messagesOf(bytes: Uint8Array): Generator<Message, void, undefined> {
  const reader = new ByteReader(bytes);
  while (reader.remaining > 0) yield readMessage(reader);
}

function readMessage(reader: ByteReader): Message {
  const start = reader.offset;
  const length = reader.u32("message length");
  const type = reader.u16("message type");
  const flags = reader.u16("message flags");
  const sequence = reader.u32("sequence number");
  const portId = reader.u32("port id");
  if (length < MESSAGE_HEADER_BYTES) {
    throw new DecodeError(`message length ${length}: shorter than its header`, start);
  }
  const body = reader.slice(length - MESSAGE_HEADER_BYTES, `message of ${length} bytes`);
  reader.align();
  return { type, flags, sequence, portId, body };
}

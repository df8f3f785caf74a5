/** Reads received bytes with bounds checks. */
import { endianness } from "node:os";
import { DecodeError } from "./errors.ts";

/** Netlink uses the host's byte order. */
export const isLittleEndianHost: boolean = endianness() === "LE";

const textDecoder = new TextDecoder();

/**
 * Reads forward through a range of bytes and never past its end. One reader handles a whole reply: `within` narrows it
 * to an attribute's payload and then restores it, so nothing is allocated per attribute.
 */
export class ByteReader {
  readonly #view: DataView;
  #offset: number;
  #end: number;

  constructor(source: Uint8Array | DataView, start = 0, end: number = source.byteLength) {
    this.#view =
      source instanceof DataView
        ? source
        : new DataView(source.buffer, source.byteOffset, source.byteLength);
    this.#offset = start;
    this.#end = end;
  }

  /** Position of the next byte. */
  get offset(): number {
    return this.#offset;
  }

  get remaining(): number {
    return this.#end - this.#offset;
  }

  u8(what: string): number {
    return this.#view.getUint8(this.#take(1, what));
  }

  u16(what: string): number {
    return this.#view.getUint16(this.#take(2, what), isLittleEndianHost);
  }

  u32(what: string): number {
    return this.#view.getUint32(this.#take(4, what), isLittleEndianHost);
  }

  s32(what: string): number {
    return this.#view.getInt32(this.#take(4, what), isLittleEndianHost);
  }

  u16be(what: string): number {
    return this.#view.getUint16(this.#take(2, what));
  }

  u32be(what: string): number {
    return this.#view.getUint32(this.#take(4, what));
  }

  /** The next `length` bytes. They share memory with the reply, so callers that keep them must copy them. */
  bytes(length: number, what: string): Uint8Array {
    const start = this.#take(length, what);
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + start, length);
  }

  /** All remaining bytes as text, up to the first NUL. */
  text(what: string): string {
    const bytes = this.bytes(this.remaining, what);
    const nul = bytes.indexOf(0);
    return textDecoder.decode(nul < 0 ? bytes : bytes.subarray(0, nul));
  }

  skip(length: number, what: string): void {
    this.#take(length, what);
  }

  /** Skips to the next multiple of four, or to the end. */
  align(): void {
    this.#offset = Math.min(this.#end, this.#offset + (-this.#offset & 3));
  }

  /** Limits `read` to the next `length` bytes, then moves this reader past those bytes. */
  within<T>(length: number, what: string, read: (reader: this) => T): T {
    const start = this.#take(length, what);
    const outerEnd = this.#end;
    this.#offset = start;
    this.#end = start + length;
    const value = read(this);
    this.#offset = start + length;
    this.#end = outerEnd;
    return value;
  }

  /** Returns a separate reader for the next `length` bytes and moves this one past them. */
  slice(length: number, what: string): ByteReader {
    const start = this.#take(length, what);
    return new ByteReader(this.#view, start, start + length);
  }

  #take(length: number, what: string): number {
    const start = this.#offset;
    if (length > this.#end - start) {
      const found = this.#end - start;
      throw new DecodeError(`${what}: ${length} bytes expected, ${found} left`, start);
    }
    this.#offset = start + length;
    return start;
  }
}

/** Bounds-checked reading of received bytes. */
import { endianness } from "node:os";
import { DecodeError } from "./errors.ts";

/** Netlink speaks the byte order of the machine. */
export const isLittleEndianHost: boolean = endianness() === "LE";

const textDecoder = new TextDecoder();

/**
 * Reads forward through a stretch of bytes and never past its end. One reader serves a whole reply:
 * `within` narrows it to an attribute's payload and back, so that nothing is allocated per attribute.
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

  /** The next `length` bytes, sharing memory with the reply: copy what is kept. */
  bytes(length: number, what: string): Uint8Array {
    const start = this.#take(length, what);
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + start, length);
  }

  /** All bytes that are left, as text up to the first NUL. */
  text(what: string): string {
    const bytes = this.bytes(this.remaining, what);
    const nul = bytes.indexOf(0);
    return textDecoder.decode(nul < 0 ? bytes : bytes.subarray(0, nul));
  }

  skip(length: number, what: string): void {
    this.#take(length, what);
  }

  /** Skips up to the next multiple of four, or to the end. */
  align(): void {
    this.#offset = Math.min(this.#end, this.#offset + (-this.#offset & 3));
  }

  /** Lets `read` see the next `length` bytes only; afterwards they are behind the reader. */
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

  /** A reader of its own over the next `length` bytes, which are then behind this one. */
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

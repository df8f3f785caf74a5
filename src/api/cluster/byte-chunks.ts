/** Collects UTF-8 text that arrives in parts. A character may be split between parts. */
export class ByteChunks {
  readonly #limitBytes: number;
  readonly #parts: Uint8Array[] = [];
  #lengthBytes = 0;

  /** `add` throws if the total exceeds `limitBytes`. */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get lengthBytes(): number {
    return this.#lengthBytes;
  }

  add(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#lengthBytes += part.length;
    if (this.#lengthBytes > this.#limitBytes) {
      throw new RangeError(`more than ${this.#limitBytes} bytes in one piece`);
    }
    this.#parts.push(part);
  }

  /** Returns the text and starts a new one. Invalid UTF-8 becomes replacement characters. */
  take(): string {
    const [first, ...others] = this.#parts;
    this.#parts.length = 0;
    this.#lengthBytes = 0;
    if (first === undefined) return "";
    if (others.length > 0) return Buffer.concat([first, ...others]).toString("utf8");
    return Buffer.from(first.buffer, first.byteOffset, first.byteLength).toString("utf8");
  }
}

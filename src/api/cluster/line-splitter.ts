import { ByteChunks } from "./byte-chunks.ts";

const lineFeed = 0x0a;

/** Splits a stream of bytes into lines. */
export class LineSplitter {
  readonly #line: ByteChunks;

  /** `push` throws if a line is longer than `limitBytes`. */
  constructor(limitBytes: number) {
    this.#line = new ByteChunks(limitBytes);
  }

  /** Whether the last line was complete. */
  get isEmpty(): boolean {
    return this.#line.lengthBytes === 0;
  }

  /** The lines that end in this chunk, without empty lines. */
  *push(chunk: Uint8Array): Generator<string> {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(lineFeed, start);
      if (end < 0) break;
      this.#line.add(chunk.subarray(start, end));
      start = end + 1;
      const line = this.#line.take();
      if (line.trim() !== "") yield line;
    }
    this.#line.add(chunk.subarray(start));
  }
}

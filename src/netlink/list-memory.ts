import type { Message } from "./message.ts";
import { PartMemory } from "./part-memory.ts";

/**
 * What the messages of a listing were decoded to: one that comes again gives the same value. Values must not hold
 * on to the reply's memory.
 */
export class ListMemory<R> {
  /** A box, since a message may give nothing. */
  readonly #parts = new PartMemory<{ readonly value: R | undefined }>();

  /** `list` makes a listing with the decoder it is given. */
  async read(
    decode: (message: Message) => R | undefined,
    list: (decode: (message: Message) => R | undefined) => Promise<R[]>,
  ): Promise<R[]> {
    this.#parts.begin();
    const values = await list((message) => {
      const hash = message.body.hash(message.type);
      const known = this.#parts.recall(hash);
      if (known !== undefined) return known.value;
      const value = decode(message);
      this.#parts.note(hash, { value });
      return value;
    });
    this.#parts.end();
    return values;
  }
}

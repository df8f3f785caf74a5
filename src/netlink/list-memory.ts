import type { Message } from "./message.ts";

/**
 * What the messages of a listing were decoded to. One that comes again byte by byte in the next listing costs its
 * hash and gives the same value: a look at a large kernel in which little changed decodes little, and allocates
 * little. Values must not hold on to the reply's memory.
 */
export class ListMemory<R> {
  #last: ReadonlyMap<number, R | undefined> = new Map();

  /** `list` makes a listing with the decoder it is given; what did not come in it is forgotten. */
  async read(
    decode: (message: Message) => R | undefined,
    list: (decode: (message: Message) => R | undefined) => Promise<R[]>,
  ): Promise<R[]> {
    const last = this.#last;
    const next = new Map<number, R | undefined>();
    const values = await list((message) => {
      const hash = message.body.hash(message.type);
      const value = last.has(hash) ? last.get(hash) : decode(message);
      next.set(hash, value);
      return value;
    });
    this.#last = next;
    return values;
  }
}

import type { Message } from "./message.ts";

/** A box, since a message may give nothing. */
interface Decoded<R> {
  readonly value: R | undefined;
}

/**
 * What the messages of a listing were decoded to, by a hash of 53 bits: one that comes again byte by byte in the next
 * listing costs its hash and gives the same value. What does not come again is forgotten. Values must not hold on to
 * the reply's memory.
 */
export class ListMemory<R> {
  #known: ReadonlyMap<number, Decoded<R>> = new Map();

  /** `list` makes a listing with the decoder it is given. */
  async read(
    decode: (message: Message) => R | undefined,
    list: (decode: (message: Message) => R | undefined) => Promise<R[]>,
  ): Promise<R[]> {
    const listed = new Map<number, Decoded<R>>();
    const values = await list((message) => {
      const hash = message.body.hash(message.type);
      const decoded = listed.get(hash) ?? this.#known.get(hash) ?? { value: decode(message) };
      listed.set(hash, decoded);
      return decoded.value;
    });
    this.#known = listed;
    return values;
  }
}

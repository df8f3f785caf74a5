interface Part<V> {
  readonly value: V;
  /** Number of the listing that it came in last. */
  listing: number;
}

/**
 * What was made of the parts of a listing (messages, or lines of text), by a hash of 53 bits. One that comes again
 * byte by byte in the next listing costs its hash: a look at a large kernel in which little changed allocates
 * nothing. What does not come again is forgotten.
 */
export class PartMemory<V> {
  readonly #parts = new Map<number, Part<V>>();
  #listing = 0;
  #seen = 0;

  get isEmpty(): boolean {
    return this.#parts.size === 0;
  }

  /** Different parts in the listing that is being read. */
  get seen(): number {
    return this.#seen;
  }

  /** A listing begins. */
  begin(): void {
    this.#listing += 1;
    this.#seen = 0;
  }

  /** What was made of this part in this listing or the one before; else undefined. */
  recall(hash: number): V | undefined {
    const part = this.#parts.get(hash);
    if (part === undefined) return undefined;
    if (part.listing !== this.#listing) {
      part.listing = this.#listing;
      this.#seen += 1;
    }
    return part.value;
  }

  note(hash: number, value: V): void {
    if (this.#parts.get(hash)?.listing !== this.#listing) this.#seen += 1;
    this.#parts.set(hash, { value, listing: this.#listing });
  }

  /** The listing is over. */
  end(): void {
    if (this.#seen === this.#parts.size) return;
    for (const [hash, { listing }] of this.#parts) {
      if (listing !== this.#listing) this.#parts.delete(hash);
    }
  }

  forget(): void {
    this.#parts.clear();
  }
}

import type { Clock } from "../../base/clock.ts";

/** Files are read this often; upstream reads tokens about once a minute too. Plugins keep their own time. */
const freshMs = 60_000;

/** Something outside the program that is replaced from time to time: read again after a minute. */
export class Remembered<T> {
  readonly #clock: Clock;
  readonly #read: () => Promise<T>;
  #last: { readonly value: T } | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, read: () => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** The newest; the last one while it cannot be read, as when it is being replaced. Throws where there is none. */
  async current(): Promise<T> {
    if (this.#last !== undefined && this.#clock.monotonicMs() - this.#readAtMs < freshMs)
      return this.#last.value;
    try {
      this.#last = { value: await this.#read() };
      this.#readAtMs = this.#clock.monotonicMs();
    } catch (error) {
      if (this.#last === undefined) throw error;
    }
    return this.#last.value;
  }

  /** It was not accepted: it is read again before it is used again. */
  drop(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }
}

import type { Clock } from "../../base/clock.ts";

/** Files are read this often; upstream reads tokens about once a minute too. Plugins keep their own time. */
const freshMs = 60_000;

/** Shortest pause after a reading that failed. */
const shortestPauseMs = 1_000;

/** Something outside the program that is replaced from time to time: read again after a minute. */
export class Remembered<T> {
  readonly #clock: Clock;
  readonly #read: () => Promise<T>;
  #last: { readonly value: T } | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #failure: { readonly error: unknown; readonly untilMs: number } | undefined;

  constructor(clock: Clock, read: () => Promise<T>) {
    this.#clock = clock;
    this.#read = read;
  }

  /**
   * The newest; the last one while it cannot be read, as when it is being replaced. Throws if there is none. A reading that
   * failed is repeated after as much time as it took, so a plugin that hangs does not run all the time.
   */
  async current(): Promise<T> {
    const startedMs = this.#clock.monotonicMs();
    if (this.#last !== undefined && startedMs - this.#readAtMs < freshMs) return this.#last.value;
    if (this.#failure === undefined || startedMs >= this.#failure.untilMs)
      await this.#try(startedMs);
    if (this.#last !== undefined) return this.#last.value;
    throw this.#failure?.error;
  }

  async #try(startedMs: number): Promise<void> {
    try {
      this.#last = { value: await this.#read() };
      this.#readAtMs = this.#clock.monotonicMs();
      this.#failure = undefined;
    } catch (error) {
      const endedMs = this.#clock.monotonicMs();
      const pauseMs = Math.max(shortestPauseMs, endedMs - startedMs);
      this.#failure = { error, untilMs: endedMs + pauseMs };
    }
  }

  /** It was not accepted: it is read again before it is used again. */
  drop(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }
}

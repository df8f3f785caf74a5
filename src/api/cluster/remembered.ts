import type { Clock } from "../../base/clock.ts";

/**
 * Interval between reads of files. client-go also reads tokens about once a minute. Plugins define their own expiry.
 */
const freshMs = 60_000;

/** Minimum delay after a failed read. */
const shortestPauseMs = 1_000;

/** Caches an external value that changes from time to time. The value is read again after a minute. */
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
   * Returns the current value. If reading fails, for example while a file is being replaced, returns the last value.
   * Throws if there is none. The delay after a failed read is as long as that read took, so that a hanging plugin does
   * not run all the time.
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

  /** Forces a new read before the next use. Called when the server has rejected the value. */
  drop(): void {
    this.#readAtMs = Number.NEGATIVE_INFINITY;
  }
}

import type { Clock } from "../../base/clock.ts";

/** First delay, and maximum delay before jitter. */
const shortestMs = 800;
const longestMs = 20_000;
/** After this long without a failure, the next failure counts as the first one. */
const calmMs = 120_000;
/** Longer Retry-After delays are capped at this value so that the program recovers within a reasonable time. */
const longestRetryAfterMs = 300_000;

/**
 * Delays after failures: 0.8 s, doubling up to 20 s, each with up to 50% random jitter. The jitter prevents thousands
 * of nodes from reconnecting at the same time.
 */
export class BackOff {
  readonly #clock: Clock;
  readonly #random: () => number;
  #failures = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;

  /** `random` returns numbers from 0 (inclusive) to 1 (exclusive). */
  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Number of failures in the current series. A long time without failures ends a series. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and returns the delay before the next attempt, which is at least `retryAfterMs`. */
  nextDelayMs(retryAfterMs = 0): number {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lastFailureMs > calmMs) this.#failures = 0;
    this.#lastFailureMs = nowMs;
    const baseMs = Math.min(longestMs, shortestMs * 2 ** this.#failures);
    this.#failures += 1;
    const leastMs = Math.max(baseMs, Math.min(retryAfterMs, longestRetryAfterMs));
    return leastMs + baseMs * 0.5 * this.#random();
  }
}

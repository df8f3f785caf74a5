import type { Clock } from "../../base/clock.ts";

/** First delay, and the largest before the random part is added. */
const shortestMs = 800;
const longestMs = 20_000;
/** After this long without a failure the next one counts as the first. */
const calmMs = 120_000;
/** A server that asks for more patience than this is not obeyed: the program must not stand still. */
const longestRetryAfterMs = 300_000;

/**
 * Delays after failures: 0.8 s, doubling, each with up to half as much again by chance, so 30 s at most and
 * a thousand nodes do not come back in the same instant.
 */
export class BackOff {
  readonly #clock: Clock;
  readonly #random: () => number;
  #failures = 0;
  #lastFailureMs = Number.NEGATIVE_INFINITY;

  /** `random` gives numbers from 0 up to 1. */
  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Failures since the last calm. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts a failure and says how long to wait; at least what the server asked for. */
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

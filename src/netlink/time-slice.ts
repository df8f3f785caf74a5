/** Gives timers and sockets their turn while a long list is read. */
import type { Clock } from "../base/clock.ts";

const MAX_SLICE_MS = 10;

export class TimeSlice {
  readonly #clock: Clock;
  #startMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.monotonicMs();
  }

  /** Undefined while time is left; else something to wait for. Asked between small pieces of work. */
  pause(): Promise<void> | undefined {
    if (this.#clock.monotonicMs() - this.#startMs < MAX_SLICE_MS) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.#startMs = this.#clock.monotonicMs();
        resolve();
      });
    });
  }
}

/** Gives timers and sockets their turn during long work. */
import type { Clock } from "./clock.ts";

const maxSliceMs = 10;

export class TimeSlice {
  readonly #clock: Clock;
  #startMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.monotonicMs();
  }

  /** Undefined while time is left; else something to wait for. Asked between small pieces of work. */
  pause(): Promise<void> | undefined {
    if (this.#clock.monotonicMs() - this.#startMs < maxSliceMs) return undefined;
    return new Promise((resolve) => {
      setImmediate(() => {
        this.#startMs = this.#clock.monotonicMs();
        resolve();
      });
    });
  }
}

/**
 * Runs a generator to its end and gives its result. It yields after each small piece of work; where the time of
 * a slice is over, others have their turn.
 */
export async function inSlices<T>(clock: Clock, pieces: Iterator<unknown, T>): Promise<T> {
  const slice = new TimeSlice(clock);
  for (;;) {
    const piece = pieces.next();
    if (piece.done === true) return piece.value;
    const pause = slice.pause();
    if (pause !== undefined) await pause;
  }
}

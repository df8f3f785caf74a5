/** Long work yields to the event loop at intervals, so that timers and sockets are served. */
import type { Clock } from "./clock.ts";

const maxSliceMs = 5;
/**
 * Intended range of the time between two clock readings. If the time is shorter, more pieces are done before the next
 * reading, because reading the clock may be slow in a virtual machine. If it is longer, fewer are done.
 */
const shortestCheckMs = 1;
const longestCheckMs = 4;
/** Number of pieces of work between two clock readings: `first` at the start, `most` at the maximum. */
const piecesPerCheck = {
  small: { first: 16, most: 64 },
  /** The duration of pieces varies: after many short ones, one may take several milliseconds. */
  large: { first: 1, most: 4 },
} as const;

/** Resolves once due timers and readable sockets have been served. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export class TimeSlice {
  readonly #clock: Clock;
  #startMs: number | undefined;
  #checkedAtMs = 0;
  readonly #maxPiecesPerCheck: number;
  #piecesPerCheck: number;
  #pieces = 0;

  /** `large`: a single piece of the work may take several milliseconds. */
  constructor(clock: Clock, pieces: keyof typeof piecesPerCheck = "small") {
    const { first, most } = piecesPerCheck[pieces];
    this.#clock = clock;
    this.#piecesPerCheck = first;
    this.#maxPiecesPerCheck = most;
    if (pieces === "large") this.#checkedAtMs = this.#startMs = clock.monotonicMs();
  }

  /** Returns undefined while time is left, otherwise a promise to await. Call it between small pieces of work. */
  pause(): Promise<void> | undefined {
    this.#pieces += 1;
    if (this.#pieces < this.#piecesPerCheck) return undefined;
    this.#pieces = 0;
    const nowMs = this.#clock.monotonicMs();
    if (this.#startMs !== undefined) this.#adapt(nowMs - this.#checkedAtMs);
    this.#startMs ??= nowMs;
    this.#checkedAtMs = nowMs;
    if (nowMs - this.#startMs < maxSliceMs) return undefined;
    return this.#begin();
  }

  async #begin(): Promise<void> {
    await yieldToEventLoop();
    this.#startMs = this.#clock.monotonicMs();
    this.#checkedAtMs = this.#startMs;
  }

  #adapt(sinceCheckMs: number): void {
    if (sinceCheckMs < shortestCheckMs) {
      this.#piecesPerCheck = Math.min(this.#maxPiecesPerCheck, this.#piecesPerCheck * 2);
    } else if (sinceCheckMs > longestCheckMs) {
      this.#piecesPerCheck = Math.max(1, this.#piecesPerCheck >> 1);
    }
  }
}

/** Runs a generator to its end without yielding to the event loop, and returns its result. */
export function finish<T>(pieces: Iterator<unknown, T>): T {
  for (;;) {
    const piece = pieces.next();
    if (piece.done === true) return piece.value;
  }
}

/**
 * Runs a generator to its end and returns its result. The generator yields after each piece of work. Yields to the
 * event loop whenever 5 ms have passed. For `size`, see {@link TimeSlice}.
 */
export async function inSlices<T>(
  clock: Clock,
  pieces: Iterator<unknown, T>,
  size: keyof typeof piecesPerCheck = "small",
): Promise<T> {
  const slice = new TimeSlice(clock, size);
  for (;;) {
    const piece = pieces.next();
    if (piece.done === true) return piece.value;
    const pause = slice.pause();
    if (pause !== undefined) await pause;
  }
}

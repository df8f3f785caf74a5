/** Gives timers and sockets their turn during long work. */
import type { Clock } from "./clock.ts";

const maxSliceMs = 5;
/** The clock is looked at as seldom as makes these times between two looks; in virtual machines a look may be dear. */
const shortestLookMs = 1;
const longestLookMs = 4;
/** What is shorter than `first` pieces costs no look at all. */
const piecesPerLook = {
  small: { first: 16, most: 64 },
  /** One may take milliseconds after many that took none. */
  large: { first: 1, most: 4 },
} as const;

/** Timers that are due and sockets that have something come first. */
export function othersTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export class TimeSlice {
  readonly #clock: Clock;
  #startMs: number | undefined;
  #lookedAtMs = 0;
  readonly #mostPiecesPerLook: number;
  #piecesPerLook: number;
  #pieces = 0;

  /** `large`: one piece of the work may take milliseconds. */
  constructor(clock: Clock, pieces: keyof typeof piecesPerLook = "small") {
    const { first, most } = piecesPerLook[pieces];
    this.#clock = clock;
    this.#piecesPerLook = first;
    this.#mostPiecesPerLook = most;
    if (pieces === "large") this.#lookedAtMs = this.#startMs = clock.monotonicMs();
  }

  /** Undefined while time is left; else something to wait for. Asked between small pieces of work. */
  pause(): Promise<void> | undefined {
    this.#pieces += 1;
    if (this.#pieces < this.#piecesPerLook) return undefined;
    this.#pieces = 0;
    const nowMs = this.#clock.monotonicMs();
    if (this.#startMs !== undefined) this.#adapt(nowMs - this.#lookedAtMs);
    this.#startMs ??= nowMs;
    this.#lookedAtMs = nowMs;
    if (nowMs - this.#startMs < maxSliceMs) return undefined;
    return this.#begin();
  }

  async #begin(): Promise<void> {
    await othersTurn();
    this.#startMs = this.#clock.monotonicMs();
    this.#lookedAtMs = this.#startMs;
  }

  #adapt(sinceLookMs: number): void {
    if (sinceLookMs < shortestLookMs) {
      this.#piecesPerLook = Math.min(this.#mostPiecesPerLook, this.#piecesPerLook * 2);
    } else if (sinceLookMs > longestLookMs) {
      this.#piecesPerLook = Math.max(1, this.#piecesPerLook >> 1);
    }
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

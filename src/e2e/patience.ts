import { type Clock, sleep } from "../base/clock.ts";
import { judged, type Outcome } from "./outcome.ts";

const pauseMs = 500;

/** The clock of a wait, and the signal that interrupts it. */
export interface Waiting {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Waits for changes in the cluster, up to a time limit. Rejects immediately if the run is interrupted. */
export class Patience {
  readonly #waiting: Waiting;
  readonly #limitMs: number;

  constructor(waiting: Waiting, limitMs: number) {
    this.#waiting = waiting;
    this.#limitMs = limitMs;
  }

  /** Resolves with the first answer that is not undefined. `what` completes "Timed out after 60 s waiting for …". */
  async until<T>(what: string, attempt: () => Promise<T | undefined>): Promise<T> {
    const answer = await this.#askUntil(attempt, (found) => found !== undefined);
    if (answer === undefined)
      throw new Error(`Timed out after ${this.#limitMs / 1000} s waiting for ${what}`);
    return answer;
  }

  /** Repeats `read` while it returns problems. Resolves with the problems that remain at the end. */
  async problemsOf(read: () => Promise<readonly string[]>): Promise<readonly string[]> {
    return await this.#askUntil(read, ({ length }) => length === 0);
  }

  /** Repeats `read` while it returns problems. `detail` describes the outcome if no problems remain. */
  async outcomeOf(detail: string, read: () => Promise<readonly string[]>): Promise<Outcome> {
    return judged(await this.problemsOf(read), detail);
  }

  /** Resolves with the first answer for which `isEnough` is true, or with the last answer at the time limit. */
  async #askUntil<T>(read: () => Promise<T>, isEnough: (answer: T) => boolean): Promise<T> {
    const { clock, signal } = this.#waiting;
    const deadlineMs = clock.monotonicMs() + this.#limitMs;
    for (;;) {
      signal.throwIfAborted();
      const answer = await read();
      if (isEnough(answer) || clock.monotonicMs() > deadlineMs) return answer;
      await sleep(clock, pauseMs, signal);
    }
  }

  async pause(milliseconds: number): Promise<void> {
    const { clock, signal } = this.#waiting;
    await sleep(clock, milliseconds, signal);
    signal.throwIfAborted();
  }
}

import { type Clock, sleep } from "../base/clock.ts";

const pauseMs = 500;

/** Waits for what a cluster brings about in its own time; ends at once, by an error, when the run is broken off. */
export class Patience {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #limitMs: number;

  constructor(clock: Clock, signal: AbortSignal, limitMs: number) {
    this.#clock = clock;
    this.#signal = signal;
    this.#limitMs = limitMs;
  }

  /** Resolves with the first answer that is not undefined. `what` completes "Waited 60 s for …". */
  async until<T>(what: string, attempt: () => Promise<T | undefined>): Promise<T> {
    const answer = await this.#askUntil(attempt, (found) => found !== undefined);
    if (answer === undefined) throw new Error(`Waited ${this.#limitMs / 1000} s for ${what}`);
    return answer;
  }

  /** Asks again while there are problems; resolves with those that stay. */
  async problemsOf(read: () => Promise<readonly string[]>): Promise<readonly string[]> {
    return await this.#askUntil(read, ({ length }) => length === 0);
  }

  /** Likewise of each that `list` gives, which is asked again too. */
  async problemsOfEach<T>(
    list: () => Promise<readonly T[]>,
    problemsOf: (one: T) => Promise<readonly string[]>,
  ): Promise<readonly string[]> {
    return await this.problemsOf(async () => {
      const found = await Promise.all((await list()).map(problemsOf));
      return found.flat();
    });
  }

  /** The last answer where time is over before one is enough. */
  async #askUntil<T>(read: () => Promise<T>, isEnough: (answer: T) => boolean): Promise<T> {
    const deadlineMs = this.#clock.monotonicMs() + this.#limitMs;
    for (;;) {
      this.#signal.throwIfAborted();
      const answer = await read();
      if (isEnough(answer) || this.#clock.monotonicMs() > deadlineMs) return answer;
      await sleep(this.#clock, pauseMs, this.#signal);
    }
  }

  async pause(milliseconds: number): Promise<void> {
    await sleep(this.#clock, milliseconds, this.#signal);
    this.#signal.throwIfAborted();
  }
}

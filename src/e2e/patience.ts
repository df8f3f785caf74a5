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
    const deadlineMs = this.#clock.monotonicMs() + this.#limitMs;
    for (;;) {
      this.#signal.throwIfAborted();
      const answer = await attempt();
      if (answer !== undefined) return answer;
      if (this.#clock.monotonicMs() > deadlineMs)
        throw new Error(`Waited ${this.#limitMs / 1000} s for ${what}`);
      await sleep(this.#clock, pauseMs, this.#signal);
    }
  }

  /** Asks again while there are problems; resolves with those that stay. */
  async problemsOf(read: () => Promise<readonly string[]>): Promise<readonly string[]> {
    const deadlineMs = this.#clock.monotonicMs() + this.#limitMs;
    for (;;) {
      this.#signal.throwIfAborted();
      const problems = await read();
      if (problems.length === 0 || this.#clock.monotonicMs() > deadlineMs) return problems;
      await sleep(this.#clock, pauseMs, this.#signal);
    }
  }

  async pause(milliseconds: number): Promise<void> {
    await sleep(this.#clock, milliseconds, this.#signal);
    this.#signal.throwIfAborted();
  }
}

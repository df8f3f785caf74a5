import type { Clock } from "../base/clock.ts";

export interface WorkQueueParts {
  readonly clock: Clock;
  /** Numbers from 0 up to 1. */
  readonly random: () => number;
  /** One at a time for each key. */
  readonly work: (key: string) => Promise<void>;
  /** Called before the delay begins; `failures` in a row, this one counted. */
  readonly onFailure: (key: string, error: unknown, retry: Retry) => void;
  /** At least so long the key waits after this error; 0: no longer than otherwise. */
  readonly leastDelayMs: (error: unknown) => number;
}

export interface Retry {
  readonly failures: number;
  readonly delayMs: number;
}

/** So many keys are worked on at once. */
const workers = 4;
/** Changes come in bursts: a key waits so long for more of them. */
const batchMs = 100;
const firstRetryMs = 500;
const longestRetryMs = 60_000;

/**
 * Keys to be worked on: each once however often it is added, never twice at the same time, and again after a failure,
 * later each time. Whatever is added while its key is being worked on is worked on afterwards.
 */
export class WorkQueue {
  readonly #parts: WorkQueueParts;
  /** Timers of keys that wait. */
  readonly #waiting = new Map<string, () => void>();
  readonly #ready = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #addedMeanwhile = new Set<string>();
  readonly #failures = new Map<string, number>();
  #isOpen = false;

  constructor(parts: WorkQueueParts) {
    this.#parts = parts;
  }

  /** Nothing waits, is being worked on, or is to be retried. */
  get isIdle(): boolean {
    return this.#waiting.size + this.#ready.size + this.#running.size === 0;
  }

  /** Begins to work; what was added before waits until then. */
  start(): void {
    this.#isOpen = true;
    this.#next();
  }

  /** Resolves when the work that runs has ended; nothing more begins. */
  async stop(): Promise<void> {
    this.#isOpen = false;
    for (const cancel of this.#waiting.values()) cancel();
    this.#waiting.clear();
    this.#ready.clear();
    await Promise.all(this.#running.values());
  }

  /** A key that waits to be retried is tried now: what it failed at may have changed. */
  add(key: string): void {
    if (this.#running.has(key)) this.#addedMeanwhile.add(key);
    else if (!this.#ready.has(key)) this.#wait(key, batchMs);
  }

  #wait(key: string, delayMs: number): void {
    this.#waiting.get(key)?.();
    const cancel = this.#parts.clock.after(delayMs, () => {
      this.#waiting.delete(key);
      this.#ready.add(key);
      this.#next();
    });
    this.#waiting.set(key, cancel);
  }

  #next(): void {
    for (const key of this.#ready) {
      if (!this.#isOpen || this.#running.size >= workers) return;
      this.#ready.delete(key);
      this.#running.set(key, this.#run(key));
    }
  }

  async #run(key: string): Promise<void> {
    // Not before the caller has noted that it runs.
    await Promise.resolve();
    const delayMs = await this.#work(key);
    this.#running.delete(key);
    const isAdded = this.#addedMeanwhile.delete(key);
    if (!this.#isOpen) return;
    if (isAdded) this.#wait(key, batchMs);
    else if (delayMs !== undefined) this.#wait(key, delayMs);
    this.#next();
  }

  /** The delay after which the key is to be retried; `undefined`: it is done. */
  async #work(key: string): Promise<number | undefined> {
    try {
      await this.#parts.work(key);
      this.#failures.delete(key);
      return undefined;
    } catch (error) {
      const failures = (this.#failures.get(key) ?? 0) + 1;
      this.#failures.set(key, failures);
      const delayMs = this.#delayMs(failures, error);
      if (this.#isOpen) this.#parts.onFailure(key, error, { failures, delayMs });
      return delayMs;
    }
  }

  /** Doubling, with up to half as much again by chance, so that keys which failed together part. */
  #delayMs(failures: number, error: unknown): number {
    const baseMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures - 1, 20));
    const leastMs = Math.min(longestRetryMs, this.#parts.leastDelayMs(error));
    return Math.max(baseMs, leastMs) + baseMs * 0.5 * this.#parts.random();
  }
}

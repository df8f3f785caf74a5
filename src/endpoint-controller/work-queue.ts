import type { Clock } from "../base/clock.ts";

export interface WorkQueueDependencies<Key> {
  readonly clock: Clock;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Calls for the same key never overlap. */
  readonly work: (key: Key) => Promise<void>;
  /** Called before the delay starts. `failures` is the number of consecutive failures, including this one. */
  readonly onFailure: (key: Key, error: unknown, retry: Retry) => void;
  /** Minimum delay before the retry after this error. 0 means no minimum. */
  readonly leastDelayMs: (error: unknown) => number;
}

export interface Retry {
  readonly failures: number;
  readonly delayMs: number;
}

/** Number of keys that are processed at the same time. */
const workers = 4;
/** Delay before a key is processed, because changes come in bursts. */
const batchMs = 100;
const firstRetryMs = 500;
const longestRetryMs = 60_000;

/**
 * A queue of keys to process. A key that is added several times is processed once, and never twice at the same time.
 * Failed keys are retried with increasing delays. A key that is added while it is being processed is processed again
 * afterwards.
 */
export class WorkQueue<Key extends string> {
  readonly #dependencies: WorkQueueDependencies<Key>;
  /** Functions that cancel the timers of waiting keys. */
  readonly #waiting = new Map<Key, () => void>();
  readonly #ready = new Set<Key>();
  readonly #running = new Map<Key, Promise<void>>();
  readonly #addedMeanwhile = new Set<Key>();
  readonly #failures = new Map<Key, number>();
  #isOpen = false;

  constructor(dependencies: WorkQueueDependencies<Key>) {
    this.#dependencies = dependencies;
  }

  /** Whether no key is waiting, being processed, or due for a retry. */
  get isIdle(): boolean {
    return this.#waiting.size + this.#ready.size + this.#running.size === 0;
  }

  /** Starts processing, including the keys that were added before. */
  start(): void {
    this.#isOpen = true;
    this.#next();
  }

  /** Starts no more work. Resolves when the current work has ended. */
  async stop(): Promise<void> {
    this.#isOpen = false;
    for (const cancel of this.#waiting.values()) cancel();
    this.#waiting.clear();
    this.#ready.clear();
    await Promise.all(this.#running.values());
  }

  /**
   * Adds a key. If the key is waiting for a retry, it is processed soon instead, because the cause of the failure may
   * be gone.
   */
  add(key: Key): void {
    if (this.#running.has(key)) this.#addedMeanwhile.add(key);
    else if (!this.#ready.has(key)) this.#wait(key, batchMs);
  }

  #wait(key: Key, delayMs: number): void {
    this.#waiting.get(key)?.();
    const cancel = this.#dependencies.clock.after(delayMs, () => {
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

  async #run(key: Key): Promise<void> {
    // Yields once so that the caller can first record that this key is running.
    await Promise.resolve();
    const delayMs = await this.#work(key);
    this.#running.delete(key);
    const isAdded = this.#addedMeanwhile.delete(key);
    if (!this.#isOpen) return;
    if (isAdded) this.#wait(key, batchMs);
    else if (delayMs !== undefined) this.#wait(key, delayMs);
    this.#next();
  }

  /** Returns the delay before the next retry. Undefined if the work succeeded. */
  async #work(key: Key): Promise<number | undefined> {
    try {
      await this.#dependencies.work(key);
      this.#failures.delete(key);
      return undefined;
    } catch (error) {
      const failures = (this.#failures.get(key) ?? 0) + 1;
      this.#failures.set(key, failures);
      const delayMs = this.#delayMs(failures, error);
      if (this.#isOpen) this.#dependencies.onFailure(key, error, { failures, delayMs });
      return delayMs;
    }
  }

  /**
   * Doubles with each failure, plus up to 50% random jitter so that keys that failed together are retried at different
   * times.
   */
  #delayMs(failures: number, error: unknown): number {
    const baseMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failures - 1, 20));
    const leastMs = Math.min(longestRetryMs, this.#dependencies.leastDelayMs(error));
    return Math.max(baseMs, leastMs) + baseMs * 0.5 * this.#dependencies.random();
  }
}

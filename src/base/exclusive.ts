/** Runs one piece of asynchronous work at a time, in the order of the calls. */
export class Exclusive {
  #last: Promise<unknown> = Promise.resolve();
  #pendingCount = 0;

  /** Waits for the work before it, then runs `work`; its result or error is the caller's. */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.#pendingCount += 1;
    const result = this.#last.then(work).finally(() => {
      this.#pendingCount -= 1;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Runs `work` unless something runs or waits; then gives `otherwise`. */
  async runIfIdle<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
    return this.#pendingCount > 0 ? otherwise : this.run(work);
  }

  /** Resolves when all work given so far has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

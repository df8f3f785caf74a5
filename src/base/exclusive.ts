/** Runs one piece of asynchronous work at a time, in the order of the calls. */
export class Exclusive {
  #last: Promise<unknown> = Promise.resolve();

  /** Waits for the work before it, then runs `work`; its result or error is the caller's. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when all work given so far has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

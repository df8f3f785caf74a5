/** Runs one piece of asynchronous work at a time, in call order. */
export class Exclusive {
  #last: Promise<unknown> = Promise.resolve();
  #pendingCount = 0;

  /** Waits until earlier work has ended, then runs `work`. Returns its result or throws its error. */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.#pendingCount += 1;
    const result = this.#last.then(work).finally(() => {
      this.#pendingCount -= 1;
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Runs `work`, or returns `otherwise` if other work is running or waiting. */
  async runIfIdle<T>(work: () => Promise<T>, otherwise: T): Promise<T> {
    return this.#pendingCount > 0 ? otherwise : this.run(work);
  }

  /** Resolves when all work submitted so far has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/**
 * Measures the longest event-loop turn in CPU time of its thread, because elapsed time depends on other work on the
 * machine.
 */
export class TurnWatch {
  #longestMs = 0;
  #excludedMs = 0;
  #isStopped = false;

  constructor() {
    this.#turn();
  }

  /** Returns the longest turn since the last call. */
  takeLongestMs(): number {
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  /** Runs work of the test itself, which is not measured. */
  exclude<T>(work: () => T): T {
    const before = process.threadCpuUsage();
    try {
      return work();
    } finally {
      this.#excludedMs += usedMs(before);
    }
  }

  /**
   * Wraps an object so that its asynchronous answers arrive in a later turn, as a kernel's would. Its own work is not
   * measured.
   */
  answeringLater<T extends object>(facility: T): T {
    return new Proxy(facility, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: readonly unknown[]): unknown => {
          const result: unknown = this.exclude(() => Reflect.apply(value, target, args));
          return result instanceof Promise ? result.finally(nextTurn) : result;
        };
      },
    });
  }

  stop(): void {
    this.#isStopped = true;
  }

  #turn(): void {
    if (this.#isStopped) return;
    this.#excludedMs = 0;
    const before = process.threadCpuUsage();
    setImmediate(() => {
      this.#longestMs = Math.max(this.#longestMs, usedMs(before) - this.#excludedMs);
      this.#turn();
    });
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function usedMs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** The longest turn of the event loop, in processor time of its thread: time that passes says how busy the machine is. */
export class TurnWatch {
  #longestMs = 0;
  #excludedMs = 0;
  #isStopped = false;

  constructor() {
    this.#turn();
  }

  /** Since it was asked last. */
  takeLongestMs(): number {
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  /** Runs work of the test itself, which does not count. */
  exclude<T>(work: () => T): T {
    const before = process.threadCpuUsage();
    try {
      return work();
    } finally {
      this.#excludedMs += usedMs(before);
    }
  }

  /** The same object, whose asynchronous answers come in a later turn, as a kernel's do; its work does not count. */
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

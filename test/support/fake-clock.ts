import type { Clock } from "../../src/base/clock.ts";

interface Timer {
  readonly dueMs: number;
  readonly callback: () => void;
}

/** A clock that the test controls. */
export class FakeClock implements Clock {
  #elapsedMs = 0;
  readonly #startMs: number;
  #timers: Timer[] = [];

  constructor(startMs: number = Date.UTC(2026, 0, 1)) {
    this.#startMs = startMs;
  }

  nowMs(): number {
    return this.#startMs + this.#elapsedMs;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { dueMs: this.#elapsedMs + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Advances the clock and calls each timer at its time. Promises settle between the calls. */
  async advance(byMs: number): Promise<void> {
    const endMs = this.#elapsedMs + byMs;
    for (;;) {
      await settlePromises();
      const next = this.#nextDue(endMs);
      if (next === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== next);
      this.#elapsedMs = Math.max(this.#elapsedMs, next.dueMs);
      next.callback();
    }
    this.#elapsedMs = endMs;
    await settlePromises();
  }

  get pendingTimers(): number {
    return this.#timers.length;
  }

  #nextDue(endMs: number): Timer | undefined {
    const due = this.#timers.filter((timer) => timer.dueMs <= endMs);
    return due.reduce<Timer | undefined>(
      (first, timer) => (first === undefined || timer.dueMs < first.dueMs ? timer : first),
      undefined,
    );
  }
}

/** Runs everything that waits only for promises. */
async function settlePromises(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
}

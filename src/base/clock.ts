/** Time is passed as an argument. Every wait in the program uses a Clock, so that tests can control time. */
export interface Clock {
  /** Wall-clock milliseconds since the epoch, which may jump. For timestamps only. */
  nowMs(): number;
  /** Milliseconds of a clock that never goes back. For intervals and deadlines. */
  monotonicMs(): number;
  /** Calls `callback` once after `delayMs`. Returns a function that cancels the call. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Delays of Node.js timers have 31 bits (24.8 days). A timer with a longer delay would fire immediately. */
const longestTimerMs = 2 ** 31 - 1;

/** The system clock. Pending timers keep the process alive. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(delayMs, callback) {
    let leftMs = delayMs;
    let timer: NodeJS.Timeout;
    const wait = (): void => {
      const waitMs = Math.min(leftMs, longestTimerMs);
      leftMs -= waitMs;
      timer = setTimeout(leftMs > 0 ? wait : callback, waitMs);
    };
    wait();
    return () => clearTimeout(timer);
  },
};

/** Resolves after `delayMs`, or as soon as `signal` aborts. Never rejects. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const finish = (): void => {
      cancel();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(delayMs, finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}

/** Time as an argument: every wait in the program goes through a Clock, so tests own it. */
export interface Clock {
  /** Wall-clock milliseconds since the epoch; may jump. For time stamps only. */
  nowMs(): number;
  /** Milliseconds that never go back; for intervals and deadlines. */
  monotonicMs(): number;
  /** Calls back once after `delayMs`; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Timers of Node.js hold 31 bits, 24.8 days: one that is to wait longer fires at once. */
const longestTimerMs = 2 ** 31 - 1;

/** The machine's own clock. A timer that is due keeps the process alive. */
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

/** Resolves after `delayMs`, or at once (without error) when `signal` aborts. */
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

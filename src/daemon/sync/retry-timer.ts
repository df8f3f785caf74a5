import type { Clock } from "../../base/clock.ts";

/** Requests a sync when a pending change is due. */
export class RetryTimer {
  readonly #clock: Clock;
  readonly #request: () => void;
  #isStopped = false;
  #cancel: () => void = () => {};

  constructor(clock: Clock, request: () => void) {
    this.#clock = clock;
    this.#request = request;
  }

  /** Sets the monotonic time of the request, replacing the previous one. Undefined means that nothing is pending. */
  at(dueMs: number | undefined): void {
    this.#cancel();
    if (dueMs === undefined || this.#isStopped) return;
    const delayMs = Math.max(0, dueMs - this.#clock.monotonicMs());
    // A delay of zero runs within the current sync, so the sync is not settled before it ends.
    if (delayMs === 0) this.#request();
    else this.#cancel = this.#clock.after(delayMs, this.#request);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }
}

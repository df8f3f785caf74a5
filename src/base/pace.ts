/** How often something may happen: `burst` times at once, then once every `intervalMs`. */
export interface Rate {
  readonly intervalMs: number;
  readonly burst: number;
}

/** A token bucket that remembers one time only (the generic cell rate algorithm). A rate that changes applies once the old interval is over. */
export class Pace {
  /** When the bucket is full again. */
  #fullAtMs = Number.NEGATIVE_INFINITY;

  /** Milliseconds until it may happen. */
  waitMs(nowMs: number, { intervalMs, burst }: Rate): number {
    return Math.max(0, this.#fullAtMs - (burst - 1) * intervalMs - nowMs);
  }

  /** Whether it may happen now; it is noted then. */
  take(nowMs: number, rate: Rate): boolean {
    if (this.waitMs(nowMs, rate) > 0) return false;
    this.note(nowMs, rate);
    return true;
  }

  /** It did not happen for so long that a whole burst may pass. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** It happens, now or after {@link waitMs}. */
  note(nowMs: number, { intervalMs }: Rate): void {
    this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + intervalMs;
  }
}

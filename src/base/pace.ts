/** How often an action may run: `burst` times without waiting, then once every `intervalMs`. */
export interface Rate {
  readonly intervalMs: number;
  readonly burst: number;
}

/**
 * A token bucket whose only state is a time (the generic cell rate algorithm). A changed rate applies once the old
 * interval has ended.
 */
export class Pace {
  /** The time at which the bucket is full again. */
  #fullAtMs = Number.NEGATIVE_INFINITY;

  /** Milliseconds until the action may run; 0 if it may run now. */
  waitMs(nowMs: number, { intervalMs, burst }: Rate): number {
    return Math.max(0, this.#fullAtMs - (burst - 1) * intervalMs - nowMs);
  }

  /** Whether the action may run now. If so, takes a token. */
  take(nowMs: number, rate: Rate): boolean {
    if (this.waitMs(nowMs, rate) > 0) return false;
    this.note(nowMs, rate);
    return true;
  }

  /** Whether enough time has passed for a whole burst. */
  isFull(nowMs: number): boolean {
    return this.#fullAtMs <= nowMs;
  }

  /** Takes a token for an action that runs now or after {@link waitMs}. */
  note(nowMs: number, { intervalMs }: Rate): void {
    this.#fullAtMs = Math.max(this.#fullAtMs, nowMs) + intervalMs;
  }
}

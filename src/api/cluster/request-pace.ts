import { type Clock, sleep } from "../../base/clock.ts";
import { Pace } from "../../base/pace.ts";

/** The settings clientConnection.qps and clientConnection.burst. */
export interface RequestRate {
  /** A negative value means no limit. */
  readonly qps: number;
  readonly burst: number;
}

/** Limits the rate of requests, like client-go: a burst of `burst`, then `qps` per second. */
export class RequestPace {
  readonly #clock: Clock;
  readonly #rate: RequestRate;
  readonly #pace = new Pace();

  constructor(clock: Clock, rate: RequestRate) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /** Resolves when the request may be sent, or when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const { qps, burst } = this.#rate;
    if (qps < 0) return;
    const rate = { intervalMs: 1_000 / qps, burst };
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#pace.waitMs(nowMs, rate);
    this.#pace.note(nowMs, rate);
    if (waitMs > 0) await sleep(this.#clock, waitMs, signal);
  }
}

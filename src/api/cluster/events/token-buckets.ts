import type { Clock } from "../../../base/clock.ts";
import { Pace, type Rate } from "../../../base/pace.ts";

/** Maximum number of separate buckets. Additional keys share one bucket. */
const maxBuckets = 4_096;

/** One token bucket per key, like client-go's spam filter for Events. Full buckets are deleted. */
export class TokenBuckets {
  readonly #clock: Clock;
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Pace>();

  constructor(clock: Clock, rate: Rate) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /** Takes a token. Returns whether there was one. */
  take(key: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const buckets = this.#buckets;
    if (buckets.size >= maxBuckets)
      for (const [one, bucket] of buckets) if (bucket.isFull(nowMs)) buckets.delete(one);
    const isCrowded = buckets.size >= maxBuckets && !buckets.has(key);
    const known = isCrowded ? "" : key;
    const bucket = buckets.get(known) ?? new Pace();
    buckets.set(known, bucket);
    return bucket.take(nowMs, this.#rate);
  }
}

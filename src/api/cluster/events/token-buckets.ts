import type { Clock } from "../../../base/clock.ts";

interface Bucket {
  tokens: number;
  filledAtMs: number;
}

/** More keys than this at a time are treated as one. */
const maxBuckets = 4_096;

/**
 * A token bucket for each key, as client-go's spam filter of events: `burst` at once, then one every
 * `refillMs`. Full buckets are forgotten.
 */
export class TokenBuckets {
  readonly #clock: Clock;
  readonly #burst: number;
  readonly #refillMs: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(
    clock: Clock,
    { burst, refillMs }: { readonly burst: number; readonly refillMs: number },
  ) {
    this.#clock = clock;
    this.#burst = burst;
    this.#refillMs = refillMs;
  }

  /** Takes a token if there is one. */
  take(key: string): boolean {
    const bucket = this.#bucketOf(key);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  #bucketOf(key: string): Bucket {
    const nowMs = this.#clock.monotonicMs();
    if (this.#buckets.size >= maxBuckets) this.#forgetFull(nowMs);
    const isCrowded = this.#buckets.size >= maxBuckets && !this.#buckets.has(key);
    const known = isCrowded ? "" : key;
    const bucket = this.#buckets.get(known) ?? { tokens: this.#burst, filledAtMs: nowMs };
    bucket.tokens = this.#tokensAt(bucket, nowMs);
    bucket.filledAtMs = nowMs;
    this.#buckets.set(known, bucket);
    return bucket;
  }

  #tokensAt({ tokens, filledAtMs }: Bucket, nowMs: number): number {
    return Math.min(this.#burst, tokens + (nowMs - filledAtMs) / this.#refillMs);
  }

  #forgetFull(nowMs: number): void {
    for (const [key, bucket] of this.#buckets) {
      if (this.#tokensAt(bucket, nowMs) >= this.#burst) this.#buckets.delete(key);
    }
  }
}

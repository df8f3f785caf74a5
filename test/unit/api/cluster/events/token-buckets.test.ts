import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TokenBuckets } from "../../../../../src/api/cluster/events/token-buckets.ts";
import { FakeClock } from "../../../../support/fake-clock.ts";

describe("a token bucket", () => {
  it("allows its burst immediately, then one per refill time, separately for each key", async () => {
    const clock = new FakeClock();
    const buckets = new TokenBuckets(clock, { burst: 3, intervalMs: 1_000 });
    const takes = (key: string, times: number): boolean[] =>
      Array.from({ length: times }, () => buckets.take(key));
    assert.deepEqual(takes("a", 4), [true, true, true, false]);
    assert.deepEqual(takes("b", 1), [true]);
    await clock.advance(999);
    assert.deepEqual(takes("a", 1), [false]);
    await clock.advance(1);
    assert.deepEqual(takes("a", 2), [true, false]);
    await clock.advance(60_000);
    assert.deepEqual(takes("a", 4), [true, true, true, false]);
  });

  it("is shared by all keys above 4096, until others are full again", async () => {
    const clock = new FakeClock();
    const buckets = new TokenBuckets(clock, { burst: 1, intervalMs: 1_000 });
    for (let index = 0; index < 4_096; index += 1) assert.equal(buckets.take(`key ${index}`), true);
    assert.equal(buckets.take("one more"), true);
    assert.equal(buckets.take("yet another"), false);
    await clock.advance(1_000);
    assert.equal(buckets.take("yet another"), true);
    assert.equal(buckets.take("one more"), true);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Pace } from "../../../src/base/pace.ts";

describe("a pace", () => {
  const rate = { intervalMs: 200, burst: 3 };

  /** Returns the waits of `count` calls at this time. */
  function waits(pace: Pace, nowMs: number, count: number): readonly number[] {
    return Array.from({ length: count }, () => {
      const waitMs = pace.waitMs(nowMs, rate);
      pace.note(nowMs, rate);
      return waitMs;
    });
  }

  it("allows a burst, then one per interval", () => {
    assert.deepEqual(waits(new Pace(), 1_000, 6), [0, 0, 0, 200, 400, 600]);
  });

  it("allows one more for each interval that has passed, up to the size of the burst", () => {
    const pace = new Pace();
    waits(pace, 0, 3);
    assert.deepEqual(waits(pace, 400, 3), [0, 0, 200]);
    assert.deepEqual(waits(pace, 60_000, 4), [0, 0, 0, 200]);
  });
});

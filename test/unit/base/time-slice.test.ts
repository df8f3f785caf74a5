import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Clock } from "../../../src/base/clock.ts";
import { inSlices, TimeSlice, yieldToEventLoop } from "../../../src/base/time-slice.ts";

/** A clock that advances by `stepMs` on each reading. */
function tickingClock(stepMs: number): Clock {
  let nowMs = 0;
  return {
    nowMs: () => nowMs,
    monotonicMs: () => {
      nowMs += stepMs;
      return nowMs;
    },
    after: () => () => {},
  };
}

function* pieces(count: number, done: number[]): Generator<void, string> {
  for (let index = 0; index < count; index += 1) {
    done.push(index);
    yield;
  }
  return "result";
}

describe("a slice of large pieces", () => {
  it("is checked after the first piece, and never after more than four", () => {
    const looks: number[] = [];
    let [pieces, nowMs] = [0, 1_000_000];
    const clock: Clock = {
      nowMs: () => 0,
      monotonicMs: () => {
        looks.push(pieces);
        return nowMs;
      },
      after: () => () => {},
    };
    const slice = new TimeSlice(clock, "large");
    for (; pieces < 16; pieces += 1) assert.equal(slice.pause(), undefined);
    assert.deepEqual(looks, [0, 0, 2, 6, 10, 14]);
    nowMs += 5;
    const pauses = [1, 2, 3, 4].map(() => slice.pause());
    assert.equal(pauses.filter((pause) => pause !== undefined).length, 1);
  });
});

describe("inSlices", () => {
  it("returns the generator's result after all of its pieces", async () => {
    const done: number[] = [];
    assert.equal(await inSlices(tickingClock(0), pieces(3, done)), "result");
    assert.deepEqual(done, [0, 1, 2]);
  });

  it("yields to the event loop when a 5 ms slice is over", async () => {
    const done: number[] = [];
    const seen: number[] = [];
    const look = (): void => {
      seen.push(done.length);
      if (done.length < 448) setImmediate(look);
    };
    setImmediate(look);
    await inSlices(tickingClock(2), pieces(480, done));
    // The clock is checked every 16 pieces and advances 2 ms per check. The work pauses after the fourth check, and then
    // after every third one.
    assert.deepEqual(seen, [64, 112, 160, 208, 256, 304, 352, 400, 448]);
  });

  it("does not yield while time is left", async () => {
    const done: number[] = [];
    let seen = -1;
    setImmediate(() => {
      seen = done.length;
    });
    await inSlices(tickingClock(0), pieces(1_000, done));
    assert.equal(seen, -1);
    assert.equal(done.length, 1_000);
  });

  it("rejects with the generator's error", async () => {
    function* failing(): Generator<void, void> {
      yield;
      throw new Error("broken");
    }
    await assert.rejects(inSlices(tickingClock(1), failing()), /broken/);
  });
});

it("yieldToEventLoop lets a due timer run first", async () => {
  const order: string[] = [];
  setTimeout(() => order.push("timer"), 1);
  for (const until = performance.now() + 5; performance.now() < until; );
  await yieldToEventLoop();
  await yieldToEventLoop();
  order.push("we");
  assert.deepEqual(order, ["timer", "we"]);
});

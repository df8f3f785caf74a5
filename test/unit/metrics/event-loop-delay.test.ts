import assert from "node:assert/strict";
import { it } from "node:test";
import { measureEventLoopDelay } from "../../../src/metrics/event-loop-delay.ts";

/** A clock whose timers the test fires late. */
function lateClock(): { fire: (lateMs: number) => void; isArmed: () => boolean; clock: never } {
  let nowMs = 0;
  let timer: { dueMs: number; callback: () => void } | undefined;
  const clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    after(delayMs: number, callback: () => void) {
      timer = { dueMs: nowMs + delayMs, callback };
      return () => {
        timer = undefined;
      };
    },
  };
  const fire = (lateMs: number): void => {
    const due = timer;
    assert.ok(due);
    nowMs = due.dueMs + lateMs;
    due.callback();
  };
  return { fire, isArmed: () => timer !== undefined, clock: clock as never };
}

it("measureEventLoopDelay reports the delay of each timer, until it is stopped", () => {
  const delays: number[] = [];
  const { clock, fire, isArmed } = lateClock();
  const stop = measureEventLoopDelay(clock, {
    eventLoopDelay: { observe: (seconds) => delays.push(seconds) },
  });
  fire(0);
  fire(1500);
  fire(20);
  assert.deepEqual(delays, [0, 1.5, 0.02]);
  stop();
  assert.equal(isArmed(), false);
});

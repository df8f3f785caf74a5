import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";

const dayMs = 86_400_000;
/** Node.js's limit. It treats a longer delay as 1 ms. */
const longestTimerMs = 2 ** 31 - 1;

describe("the machine's clock", () => {
  let delaysMs: number[];

  beforeEach(() => {
    mock.timers.enable({ apis: ["setTimeout"] });
    delaysMs = [];
    const mocked = globalThis.setTimeout;
    mock.method(globalThis, "setTimeout", (callback: () => void, delayMs: number) => {
      delaysMs.push(delayMs);
      return mocked(callback, delayMs);
    });
  });

  afterEach(() => {
    mock.restoreAll();
    mock.timers.reset();
  });

  it("waits longer than a Node.js timer can", () => {
    let calls = 0;
    systemClock.after(60 * dayMs, () => {
      calls += 1;
    });
    for (let day = 0; day < 59; day++) mock.timers.tick(dayMs);
    assert.equal(calls, 0);
    for (let day = 0; day < 60; day++) mock.timers.tick(dayMs);
    assert.equal(calls, 1);
    assert.ok(delaysMs.every((delayMs) => delayMs <= longestTimerMs));
    assert.equal(
      delaysMs.reduce((sum, delayMs) => sum + delayMs, 0),
      60 * dayMs,
    );
  });

  it("cancels such a long wait, even after its first part", () => {
    const fail = (): void => assert.fail("it was canceled");
    const cancelFirst = systemClock.after(60 * dayMs, fail);
    const cancelLater = systemClock.after(60 * dayMs, fail);
    cancelFirst();
    for (let day = 0; day < 30; day++) mock.timers.tick(dayMs);
    cancelLater();
    for (let day = 0; day < 90; day++) mock.timers.tick(dayMs);
  });

  it("does not change short delays", () => {
    let calls = 0;
    systemClock.after(0, () => {
      calls += 1;
    });
    systemClock.after(1_500, () => {
      calls += 1;
    });
    mock.timers.tick(1_500);
    assert.deepEqual([calls, delaysMs], [2, [0, 1_500]]);
  });
});

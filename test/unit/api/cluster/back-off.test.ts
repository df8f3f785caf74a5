import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BackOff } from "../../../../src/api/cluster/back-off.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const delays = (backOff: BackOff, count: number): readonly number[] =>
  Array.from({ length: count }, () => backOff.nextDelayMs());

describe("delays after failures", () => {
  it("double from 0.8 s to 20 s without jitter", () => {
    const backOff = new BackOff(new FakeClock(), () => 0);
    assert.deepEqual(delays(backOff, 7), [800, 1600, 3200, 6400, 12_800, 20_000, 20_000]);
  });

  it("stay below 30 s regardless of jitter", () => {
    const backOff = new BackOff(new FakeClock(), () => 0.999);
    for (const delay of delays(backOff, 20)) assert.ok(delay > 1199 && delay < 30_000);
  });

  it("restart at the shortest delay after two minutes without a failure", async () => {
    const clock = new FakeClock();
    const backOff = new BackOff(clock, () => 0);
    delays(backOff, 5);
    await clock.advance(120_000);
    assert.equal(backOff.nextDelayMs(), 20_000);
    await clock.advance(120_001);
    assert.equal(backOff.nextDelayMs(), 800);
    assert.equal(backOff.failures, 1);
  });

  it("are as long as the server requests, up to a limit", () => {
    const backOff = new BackOff(new FakeClock(), () => 0.5);
    assert.equal(backOff.nextDelayMs(10_000), 10_200);
    assert.equal(backOff.nextDelayMs(1_000), 2000);
    assert.equal(backOff.nextDelayMs(86_400_000), 300_800);
  });
});

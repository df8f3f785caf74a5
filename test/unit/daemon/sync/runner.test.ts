import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentLogger } from "../../../../src/base/log.ts";
import { Runner, type RunnerOptions, runnerOptions } from "../../../../src/daemon/sync/runner.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const options: RunnerOptions = {
  gatherMs: 0,
  minIntervalMs: 100,
  longestRetryMs: 10_000,
  firstRetryMs: 1_000,
};

describe("Runner", () => {
  let clock: FakeClock;
  /** Start times of the runs. */
  let runs: number[];
  /** Results of the next runs. `true` if the list is empty. */
  let answers: boolean[];
  let runner: Runner;

  function make(overrides: Partial<RunnerOptions> = {}): Runner {
    const run = async (): Promise<boolean> => {
      runs.push(clock.monotonicMs());
      return answers.shift() ?? true;
    };
    return new Runner("Sync", run, { clock, log: silentLogger }, { ...options, ...overrides });
  }

  beforeEach(() => {
    clock = new FakeClock();
    runs = [];
    answers = [];
    runner = make();
  });

  it("immediately serves a request that was made before the start", async () => {
    runner.request();
    runner.start();
    await clock.advance(0);
    assert.deepEqual(runs, [0]);
  });

  it("runs once for a burst, and once more for requests after that run began", async () => {
    runner.start();
    for (let count = 0; count < 10; count++) runner.request();
    await clock.advance(0);
    for (let count = 0; count < 10; count++) runner.request();
    await clock.advance(1_000);
    assert.deepEqual(runs, [0, 100]);
  });

  it("does not run without a request, and has no timer", async () => {
    runner.start();
    await clock.advance(25_000);
    assert.deepEqual([runs, clock.pendingTimers], [[], 0]);
    runner.request();
    await clock.advance(25_000);
    assert.deepEqual([runs, clock.pendingTimers], [[25_000], 0]);
  });

  it("retries after a failure with growing delays, up to the longest retry delay", async () => {
    answers = [false, false, false, false, false, true];
    runner.start();
    runner.request();
    await clock.advance(26_000);
    assert.deepEqual(runs, [0, 1_000, 3_000, 7_000, 15_000, 25_000]);
  });

  it("retries within a minute if every period is an hour, even while changes arrive", async () => {
    const hourMs = 3_600_000;
    const current = { minSyncPeriodMs: hourMs, syncPeriodMs: hourMs, verificationPeriodMs: hourMs };
    answers = Array.from({ length: 4 }, () => false);
    runner = make(runnerOptions({ current }));
    runner.start();
    runner.request();
    for (let second = 0; second < 600; second++) {
      await clock.advance(1_000);
      if (answers.length > 0) runner.request();
    }
    assert.deepEqual(runs, [0, 60_000, 120_000, 180_000, 240_000]);
    runner.request();
    await clock.advance(hourMs);
    assert.equal(runs.length, 6);
  });

  it("uses the shorter of the two periods as longest retry delay, or the pause between syncs if that is longer", () => {
    const longest = (minSyncPeriodMs: number, syncPeriodMs: number, verificationPeriodMs: number) =>
      runnerOptions({ current: { minSyncPeriodMs, syncPeriodMs, verificationPeriodMs } })
        .longestRetryMs;
    assert.deepEqual(
      [longest(0, 30_000, 20_000), longest(50_000, 90_000, 30_000), longest(0, 90_000, 90_000)],
      [20_000, 50_000, 60_000],
    );
  });

  it("serves a request before a retry is due", async () => {
    answers = [false];
    runner.start();
    runner.request();
    await clock.advance(0);
    runner.request();
    await clock.advance(200);
    assert.deepEqual(runs, [0, 100]);
  });

  it("is settled only if the last run succeeded and nothing is pending", async () => {
    answers = [false];
    runner.start();
    runner.request();
    let isSettled = false;
    const settled = runner.settled().then(() => {
      isSettled = true;
    });
    await clock.advance(500);
    assert.equal(isSettled, false);
    await clock.advance(1_000);
    await settled;
    assert.equal(runs.length, 2);
  });

  it("counts a rejection as a failure", async () => {
    let calls = 0;
    const failing = async (): Promise<boolean> => {
      calls += 1;
      if (calls === 1) throw new Error("broken");
      return true;
    };
    runner = new Runner("Sync", failing, { clock, log: silentLogger }, options);
    runner.start();
    runner.request();
    await clock.advance(1_000);
    assert.equal(calls, 2);
  });

  it("stops after the current run, and starts no other", async () => {
    let finish: (worked: boolean) => void = () => {};
    let calls = 0;
    const slow = (): Promise<boolean> => {
      calls += 1;
      return new Promise((resolve) => {
        finish = resolve;
      });
    };
    runner = new Runner("Sync", slow, { clock, log: silentLogger }, options);
    runner.start();
    runner.request();
    await clock.advance(0);
    runner.request();
    let hasStopped = false;
    const stopped = runner.stop().then(() => {
      hasStopped = true;
    });
    await clock.advance(0);
    assert.equal(hasStopped, false);
    finish(true);
    await stopped;
    await clock.advance(60_000);
    assert.equal(calls, 1);
    assert.equal(clock.pendingTimers, 0);
  });
});

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type NextRun, Periodic, type PeriodicTask } from "../../../src/base/periodic.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

describe("Periodic", () => {
  let clock: FakeClock;
  let log: RecordingLogger;
  /** Start times of the runs. */
  let runs: number[];
  /** Return value of the next run. */
  let next: NextRun;
  /** Duration of a run. */
  let costMs: number;

  beforeEach(() => {
    clock = new FakeClock();
    log = new RecordingLogger();
    runs = [];
    next = "paced";
    costMs = 0;
  });

  async function run(): Promise<NextRun> {
    runs.push(clock.monotonicMs());
    const { promise, resolve } = Promise.withResolvers<void>();
    if (costMs === 0) resolve();
    else clock.after(costMs, resolve);
    await promise;
    return next;
  }

  function make(overrides: Partial<PeriodicTask> = {}): Periodic {
    const task = { name: "check of sets", intervalMs: 1_000, maxShare: 0.05, run };
    return new Periodic({ ...task, ...overrides }, { clock, log });
  }

  it("runs after the interval, and then after each interval", async () => {
    make().start();
    await clock.advance(3_500);
    assert.deepEqual(runs, [1_000, 2_000, 3_000]);
  });

  it("never runs with an interval of 0", async () => {
    make({ intervalMs: 0 }).start();
    await clock.advance(60_000);
    assert.deepEqual([runs, clock.pendingTimers], [[], 0]);
  });

  it("is not delayed by repeated starts", async () => {
    const periodic = make();
    for (let time = 0; time < 30; time += 1) {
      periodic.start();
      await clock.advance(100);
    }
    assert.deepEqual(runs, [1_000, 2_000, 3_000]);
  });

  it("uses a new interval from then on, including the current wait", async () => {
    const periodic = make({ intervalMs: 600_000 });
    periodic.start();
    await clock.advance(500);
    periodic.configure({ intervalMs: 1_000 });
    await clock.advance(2_000);
    assert.deepEqual(runs, [1_500, 2_500]);
    periodic.configure({ intervalMs: 10_000 });
    await clock.advance(20_000);
    assert.deepEqual(runs.slice(2), [12_500, 22_500]);
  });

  it("is not delayed by setting the same interval again, and is not started by a new one", async () => {
    const periodic = make();
    periodic.configure({ intervalMs: 1_000 });
    await clock.advance(5_000);
    assert.deepEqual(runs, []);
    periodic.start();
    for (let time = 0; time < 30; time += 1) {
      periodic.configure({ intervalMs: 1_000 });
      await clock.advance(100);
    }
    assert.equal(runs.length, 3);
  });

  it("stops when a run requests it, until it is started again", async () => {
    next = "stop";
    const periodic = make();
    periodic.start();
    await clock.advance(10_000);
    assert.deepEqual([runs, clock.pendingTimers], [[1_000], 0]);
    periodic.start();
    await clock.advance(10_000);
    assert.deepEqual(runs, [1_000, 11_000]);
  });

  const paces: readonly {
    readonly name: string;
    readonly costMs: number;
    readonly longestPauseMs?: number;
    readonly runs: readonly number[];
  }[] = [
    { name: "at its interval while it is cheap", costMs: 50, runs: [1_000, 2_050, 3_100] },
    {
      name: "for its share of the time when it is expensive",
      costMs: 200,
      runs: [1_000, 5_000, 9_000],
    },
    {
      name: "after the longest pause, however expensive",
      costMs: 9_000,
      longestPauseMs: 10_000,
      runs: [1_000, 20_000, 39_000],
    },
    {
      name: "after the interval if that is longer than the longest pause",
      costMs: 9_000,
      longestPauseMs: 500,
      runs: [1_000, 11_000, 21_000],
    },
  ];
  for (const { name, longestPauseMs, ...pace } of paces) {
    it(`runs ${name}`, async () => {
      ({ costMs } = pace);
      make(longestPauseMs === undefined ? {} : { longestPauseMs }).start();
      await clock.advance(60_000);
      assert.deepEqual(runs.slice(0, 3), pace.runs);
    });
  }

  it("forgets an expensive run after a cheap one", async () => {
    costMs = 200;
    make().start();
    await clock.advance(1_200);
    costMs = 0;
    await clock.advance(5_000);
    assert.deepEqual(runs, [1_000, 5_000, 6_000]);
  });

  it("runs again soon if a run requests it, regardless of the cost", async () => {
    next = "soon";
    costMs = 400;
    make().start();
    await clock.advance(5_000);
    assert.deepEqual(runs, [1_000, 2_400, 3_800]);
  });

  it("never runs twice at the same time, even if it is started in the meantime", async () => {
    costMs = 5_000;
    const periodic = make();
    periodic.start();
    await clock.advance(1_500);
    periodic.start();
    await clock.advance(4_000);
    assert.deepEqual(runs, [1_000]);
  });

  it("continues after a failed run, and reports it", async () => {
    make({ run: () => Promise.reject(new Error("Cannot list set headers: EPERM")) }).start();
    await clock.advance(2_000);
    const line = {
      level: "warn",
      event: "Periodic task failed",
      keys: { task: "check of sets", err: "Cannot list set headers: EPERM" },
    };
    assert.deepEqual(log.lines, [line, line]);
  });

  it("ends with stop, even during a run", async () => {
    costMs = 500;
    const periodic = make();
    periodic.start();
    await clock.advance(1_100);
    periodic.stop();
    periodic.start();
    await clock.advance(60_000);
    assert.deepEqual([runs, log.lines, clock.pendingTimers], [[1_000], [], 0]);
  });

  it("ends with stop before the first run", async () => {
    const periodic = make();
    periodic.start();
    periodic.stop();
    await clock.advance(60_000);
    assert.deepEqual([runs, clock.pendingTimers], [[], 0]);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "../../../../src/base/log.ts";
import { ChangeWatch } from "../../../../src/daemon/sync/change-watch.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

/** A watch whose checks run until the test ends them. If the kernel does not answer, they fail immediately. */
class Stage {
  readonly clock = new FakeClock();
  readonly looks: (() => void)[] = [];
  readonly failedAtMs: number[] = [];
  isAnswering = true;
  change: () => void = () => {};
  readonly watch: ChangeWatch;

  constructor(pauseMs = 0) {
    const check = (): Promise<void> => {
      if (this.isAnswering) return new Promise((resolve) => this.looks.push(resolve));
      this.failedAtMs.push(this.clock.monotonicMs());
      return Promise.reject(new Error("ENOBUFS"));
    };
    const state = {
      name: "links and addresses",
      watch: (onChange: () => void) => {
        this.change = onChange;
        return () => {};
      },
      check,
      ...{ gatherMs: 50, pauseMs },
    };
    this.watch = new ChangeWatch(state, { clock: this.clock, log: silentLogger });
    this.watch.start();
  }

  async changes(times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) {
      this.change();
      await this.clock.advance(200);
    }
  }
}

describe("the watch of kernel state with change notifications", () => {
  it("checks once for all changes that arrive while a check is waiting, and once more after it", async () => {
    const stage = new Stage();
    await stage.changes(20);
    assert.equal(stage.looks.length, 1);
    stage.looks[0]?.();
    await stage.clock.advance(200);
    assert.equal(stage.looks.length, 2);
    stage.looks[1]?.();
    await stage.clock.advance(10_000);
    assert.equal(stage.looks.length, 2);
  });

  it("checks on each change if there is enough time", async () => {
    const stage = new Stage();
    for (const count of [1, 2, 3]) {
      await stage.changes(1);
      assert.equal(stage.looks.length, count);
      stage.looks.at(-1)?.();
    }
  });

  it("retries a failed check with growing delays until it succeeds", async () => {
    const stage = new Stage();
    stage.isAnswering = false;
    await stage.changes(1);
    await stage.clock.advance(100_000);
    const pauses = stage.failedAtMs.map((atMs, index) => atMs - (stage.failedAtMs[index - 1] ?? 0));
    assert.deepEqual(pauses, [50, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    stage.isAnswering = true;
    await stage.clock.advance(30_000);
    stage.looks[0]?.();
    await stage.clock.advance(100_000);
    assert.equal(stage.looks.length, 1);
    stage.isAnswering = false;
    await stage.changes(1);
    stage.watch.stop();
    await stage.clock.advance(100_000);
    assert.equal(stage.failedAtMs.length, pauses.length + 1);
  });

  it("does not check after it is stopped, even if a change was reported", async () => {
    const stage = new Stage();
    await stage.changes(2);
    stage.watch.stop();
    stage.looks[0]?.();
    await stage.clock.advance(1_000);
    assert.equal(stage.looks.length, 1);
  });

  it("checks while changes continue, with a pause between two checks", async () => {
    const stage = new Stage(250);
    for (let time = 0; time < 100; time += 1) {
      stage.change();
      await stage.clock.advance(10);
      stage.looks.at(-1)?.();
    }
    assert.equal(stage.looks.length, 4);
  });
});

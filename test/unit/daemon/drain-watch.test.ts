import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentLogger } from "../../../src/base/log.ts";
import { type DrainFinding, DrainWatch } from "../../../src/daemon/drain-watch.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

describe("DrainWatch", () => {
  let clock: FakeClock;
  let looks: number[];
  let finding: DrainFinding;
  /** What a look takes. */
  let costMs: number;
  let watch: DrainWatch;

  beforeEach(() => {
    clock = new FakeClock();
    looks = [];
    finding = "waiting";
    costMs = 0;
    watch = new DrainWatch(check, { clock, log: silentLogger });
  });

  async function check(): Promise<DrainFinding> {
    looks.push(clock.monotonicMs());
    const { promise, resolve } = Promise.withResolvers<void>();
    if (costMs === 0) resolve();
    else clock.after(costMs, resolve);
    await promise;
    return finding;
  }

  it("looks each second while something drains, and not at all before and after", async () => {
    await clock.advance(5_000);
    assert.equal(looks.length, 0);
    watch.wake();
    await clock.advance(3_000);
    assert.deepEqual(looks, [6_000, 7_000, 8_000]);
    finding = "nothing";
    await clock.advance(10_000);
    assert.deepEqual(looks.slice(3), [9_000]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("is not put off by syncs that follow each other quickly", async () => {
    for (let sync = 0; sync < 30; sync++) {
      watch.wake();
      await clock.advance(100);
    }
    assert.deepEqual(looks, [1_000, 2_000, 3_000]);
  });

  it("waits twenty times as long as a look takes, ten seconds at most", async () => {
    costMs = 200;
    watch.wake();
    await clock.advance(1_200);
    costMs = 2_000;
    await clock.advance(4_000 + 2_000);
    assert.deepEqual(looks, [1_000, 5_200]);
    costMs = 0;
    await clock.advance(10_000);
    assert.deepEqual(looks, [1_000, 5_200, 17_200]);
    await clock.advance(1_000);
    assert.deepEqual(looks.slice(3), [18_200]);
  });

  it("goes on at once while drains end, however long that takes", async () => {
    finding = "ending";
    costMs = 400;
    watch.wake();
    await clock.advance(5_000);
    assert.deepEqual(looks, [1_000, 2_400, 3_800]);
  });

  it("goes on after a look that failed, and says so", async () => {
    const log = new RecordingLogger();
    let attempts = 0;
    const failing = new DrainWatch(
      async () => {
        attempts += 1;
        if (attempts === 1) throw new Error("no kernel");
        return "nothing";
      },
      { clock, log },
    );
    failing.wake();
    await clock.advance(5_000);
    assert.equal(attempts, 2);
    assert.deepEqual(
      log.lines.map(({ event }) => event),
      ["Background work failed"],
    );
  });

  it("looks no more once it is stopped, not even after a look that was under way", async () => {
    costMs = 500;
    watch.wake();
    await clock.advance(1_100);
    watch.stop();
    watch.wake();
    await clock.advance(60_000);
    assert.deepEqual(looks, [1_000]);
    assert.equal(clock.pendingTimers, 0);
  });
});

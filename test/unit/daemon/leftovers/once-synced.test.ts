import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { onceSynced } from "../../../../src/daemon/leftovers/once-synced.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

describe("the removal of leftovers after the first sync", () => {
  for (const [isStopped, logged] of [
    [true, []],
    [false, ["Cannot remove leftovers, retrying"]],
  ] as const) {
    it(`${isStopped ? "does not log" : "logs"} an error ${isStopped ? "after" : "before"} the program stops`, async () => {
      const clock = new FakeClock();
      const log = new RecordingLogger();
      const stop = new AbortController();
      const removal = Promise.withResolvers<boolean>();
      onceSynced({ clock, log, stop: stop.signal }, () => removal.promise)();
      if (isStopped) stop.abort();
      removal.reject(new Error("EBADF (the socket was closed)"));
      await clock.advance(0);
      assert.deepEqual(
        log.lines.map(({ event }) => event),
        logged,
      );
    });
  }

  it("is repeated each minute after an error", async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    let count = 0;
    const remove = async (): Promise<boolean> => {
      count += 1;
      if (count < 3) throw new Error("ENOBUFS");
      return true;
    };
    onceSynced({ clock, log: new RecordingLogger(), stop: stop.signal }, remove)();
    await clock.advance(600_000);
    assert.equal(count, 3);
  });
});

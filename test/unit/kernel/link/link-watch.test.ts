import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LinkWatch } from "../../../../src/kernel/link/link-watch.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { answeringSocket } from "../../netlink/answering-socket.ts";

describe("LinkWatch", () => {
  it("listens again after a pause, retries if it cannot, and only listens once", async () => {
    const clock = new FakeClock();
    const { shim, listeners } = answeringSocket(() => new Uint8Array());
    let isRefused = false;
    const open: typeof shim.open = (...call) => {
      if (isRefused) throw Object.assign(new Error("EMFILE"), { errno: 24 });
      return shim.open(...call);
    };
    const [errors, notices]: [Error[], number[]] = [[], []];
    const watch = new LinkWatch(
      { shim: { ...shim, open }, clock },
      { onChange: () => notices.push(clock.monotonicMs()), onError: (error) => errors.push(error) },
    );
    watch.pause();
    assert.equal(listeners(), 0);
    isRefused = true;
    watch.resume();
    assert.deepEqual([listeners(), errors.length], [0, 1]);
    isRefused = false;
    await clock.advance(5_000);
    assert.deepEqual([listeners(), errors.length, notices.length], [1, 1, 2]);
    watch.resume();
    assert.equal(listeners(), 1, "one however often it is told to");
    isRefused = true;
    watch.pause();
    watch.resume();
    watch.close();
    isRefused = false;
    await clock.advance(5_000);
    assert.equal(listeners(), 0);
  });

  it("treats lost messages as changes, not as errors", async () => {
    const clock = new FakeClock();
    const { shim, deliver } = answeringSocket(() => new Uint8Array());
    const [errors, notices]: [Error[], number[]] = [[], []];
    const onChange = (): number => notices.push(clock.monotonicMs());
    const onError = (error: Error): number => errors.push(error);
    const watch = new LinkWatch({ shim, clock }, { onChange, onError });
    deliver(105, new Uint8Array());
    await clock.advance(100);
    assert.deepEqual([errors.length, notices.length], [0, 1]);
    deliver(22, new Uint8Array());
    await clock.advance(100);
    assert.deepEqual([errors.length, notices.length], [1, 2]);
    watch.close();
  });

  it("listens again after an error that ends the watch", async () => {
    const clock = new FakeClock();
    const { shim, deliver } = answeringSocket(() => new Uint8Array());
    let opened = 0;
    const open: typeof shim.open = (...call) => {
      opened += 1;
      return shim.open(...call);
    };
    const [errors, notices]: [Error[], number[]] = [[], []];
    const watch = new LinkWatch(
      { shim: { ...shim, open }, clock },
      { onChange: () => notices.push(clock.monotonicMs()), onError: (error) => errors.push(error) },
    );
    // The kernel reports EMSGSIZE if it could not describe a change in one message.
    deliver(90, new Uint8Array());
    assert.deepEqual([opened, errors.length, notices.length], [1, 1, 1]);
    await clock.advance(1_000);
    assert.deepEqual([opened, errors.length, notices.length], [2, 1, 2]);
    deliver(90, new Uint8Array());
    watch.close();
    await clock.advance(1_000);
    assert.equal(opened, 2);
  });
});

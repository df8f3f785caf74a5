import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LinkWatch } from "../../../../src/kernel/link/link-watch.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { answeringSocket, messages } from "../../netlink/answering-socket.ts";

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

  it("batches address changes for a tenth of a second, and route changes for a second unless an address changes", async () => {
    const clock = new FakeClock();
    const { shim, deliver } = answeringSocket(() => new Uint8Array());
    let notices = 0;
    const onChange = (): void => {
      notices += 1;
    };
    const watch = new LinkWatch({ shim, clock }, { onChange, onError: assert.fail });
    const [newAddress, newRoute, deleteRoute] = [20, 24, 25];
    const hear = (type: number): void => deliver(0, messages({ type, sequence: 0 }));
    const after = async (ms: number): Promise<number> => {
      await clock.advance(ms);
      return notices;
    };
    hear(newAddress);
    hear(newAddress);
    assert.deepEqual([await after(99), await after(1), await after(5_000)], [0, 1, 1]);
    for (const type of [newRoute, deleteRoute]) {
      notices = 0;
      hear(type);
      await after(500);
      hear(type);
      assert.deepEqual([await after(499), await after(1), await after(5_000)], [0, 1, 1]);
    }
    notices = 0;
    hear(newRoute);
    hear(newAddress);
    hear(newRoute);
    assert.deepEqual([await after(99), await after(1), await after(5_000)], [0, 1, 1]);
    hear(newAddress);
    watch.close();
    assert.equal(await after(5_000), 1, "nothing comes after the end");
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
});

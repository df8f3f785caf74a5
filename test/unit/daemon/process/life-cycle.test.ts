import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import {
  endEarlyOnSignals,
  exitOnUncaught,
  runUntilSignal,
  type Stop,
} from "../../../../src/daemon/process/life-cycle.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

/** A fake process that records how it was stopped. */
class FakeProcess extends EventEmitter {
  readonly codes: number[] = [];

  exit(code: number): void {
    this.codes.push(code);
  }
}

interface Run {
  readonly target: FakeProcess;
  readonly clock: FakeClock;
  readonly log: RecordingLogger;
  readonly done: Promise<void>;
}

async function run(
  start: (signal: AbortSignal, fail: (error: Error) => void) => Promise<Stop>,
  stopDelayMs = 0,
): Promise<Run> {
  const target = new FakeProcess();
  const clock = new FakeClock();
  const log = new RecordingLogger();
  const done = runUntilSignal({ clock, log, stopDelayMs }, start, target);
  await clock.advance(0);
  return { target, clock, log, done };
}

/** A stop function that hangs until the test releases it. */
function hanging(): { readonly stop: Stop; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { stop: () => promise, release: resolve };
}

describe("runUntilSignal", () => {
  for (const signal of ["SIGTERM", "SIGINT"]) {
    it(`stops on ${signal} and leaves nothing behind`, async () => {
      let stops = 0;
      const { target, clock, log, done } = await run(async () => async () => {
        stops += 1;
      });
      assert.equal(stops, 0);
      target.emit(signal);
      await done;
      assert.equal(stops, 1);
      assert.deepEqual(target.codes, []);
      assert.deepEqual(log.lines.at(0)?.keys, { signal });
      assert.equal(clock.pendingTimers, 0);
      assert.deepEqual(target.eventNames(), []);
    });
  }

  it("stops and rejects if the started program fails", async () => {
    let stops = 0;
    let fail = (_error: Error): void => {};
    const { target, clock, done } = await run(async (_signal, onFailure) => {
      fail = onFailure;
      return async () => {
        stops += 1;
      };
    });
    fail(new Error("no pod CIDR"));
    await assert.rejects(done, /^Error: no pod CIDR$/);
    assert.deepEqual([stops, target.codes, clock.pendingTimers], [1, [], 0]);
  });

  it("exits with 1 if a failed program cannot be stopped", async () => {
    const { stop, release } = hanging();
    const { target, clock, done } = await run(async (_signal, onFailure) => {
      onFailure(new Error("x"));
      return stop;
    });
    await clock.advance(900);
    assert.deepEqual(target.codes, [1]);
    release();
    await assert.rejects(done);
  });

  it("exits within a second if the stop hangs", async () => {
    const { stop, release } = hanging();
    const { target, clock, log, done } = await run(async () => stop);
    target.emit("SIGTERM");
    await clock.advance(899);
    assert.deepEqual(target.codes, []);
    await clock.advance(1);
    assert.deepEqual(target.codes, [0]);
    assert.equal(log.lines.at(-1)?.event, "Shutdown timed out");
    release();
    await done;
  });

  const second: readonly (readonly [name: string, code: number])[] = [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ];
  for (const [name, code] of second) {
    it(`exits immediately on ${name} during the stop`, async () => {
      const { stop, release } = hanging();
      const { target, done } = await run(async () => stop);
      target.emit("SIGTERM");
      target.emit(name);
      assert.deepEqual(target.codes, [code]);
      release();
      await done;
    });
  }

  describe("with a stop delay", () => {
    const delayMs = 20_000;
    const beginStop = async (stop: Stop) => {
      let fail = (_error: Error): void => {};
      let isTold = false;
      const running = await run(async (signal, onFailure) => {
        fail = onFailure;
        signal.addEventListener("abort", () => {
          isTold = true;
        });
        return stop;
      }, delayMs);
      running.target.emit("SIGTERM");
      assert.ok(isTold);
      return { ...running, fail };
    };

    it("stops when the delay has passed", async () => {
      let stops = 0;
      const { target, clock, done } = await beginStop(() => {
        stops += 1;
      });
      await clock.advance(delayMs - 1);
      assert.equal(stops, 0);
      await clock.advance(1);
      await done;
      assert.deepEqual([stops, target.codes, clock.pendingTimers], [1, [], 0]);
    });

    it("exits within a second after the delay if the stop hangs", async () => {
      const { stop, release } = hanging();
      const { target, clock, done } = await beginStop(stop);
      await clock.advance(delayMs + 899);
      assert.deepEqual(target.codes, []);
      await clock.advance(1);
      assert.deepEqual(target.codes, [0]);
      release();
      await done;
    });

    it("exits immediately on a second signal", async () => {
      const { target, clock, done } = await beginStop(() => {});
      target.emit("SIGTERM");
      assert.deepEqual(target.codes, [143]);
      await clock.advance(delayMs);
      await done;
    });

    it("stops early if the program fails in the meantime", async () => {
      const { target, clock, done, fail } = await beginStop(() => {});
      fail(new Error("no pod CIDR"));
      await done;
      assert.deepEqual([target.codes, clock.pendingTimers], [[], 0]);
    });

    it("aborts a startup in progress without a delay", async () => {
      const started = Promise.withResolvers<Stop>();
      const { target, done } = await run(() => started.promise, delayMs);
      target.emit("SIGTERM");
      started.resolve(() => {});
      await done;
      assert.deepEqual(target.codes, []);
    });
  });

  it("aborts a startup in progress, whose error is then ignored", async () => {
    const { target, done } = await run(async (signal) => {
      await new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)),
      );
      return async () => {};
    });
    target.emit("SIGTERM");
    await done;
    assert.deepEqual(target.codes, []);
  });

  it("stops a program that ignored the signal during its startup", async () => {
    let stops = 0;
    const started = Promise.withResolvers<Stop>();
    const { target, done } = await run(() => started.promise);
    target.emit("SIGTERM");
    started.resolve(async () => {
      stops += 1;
    });
    await done;
    assert.equal(stops, 1);
  });

  it("passes on the reason for a failed start", async () => {
    const error = new Error("no kernel");
    const target = new FakeProcess();
    const parts = { clock: new FakeClock(), log: new RecordingLogger() };
    await assert.rejects(
      runUntilSignal(parts, () => Promise.reject(error), target),
      error,
    );
    assert.deepEqual(target.eventNames(), []);
  });
});

describe("exitOnUncaught", () => {
  for (const event of ["uncaughtException", "unhandledRejection"]) {
    it(`reports the error and exits with 1 on ${event}`, () => {
      const target = new FakeProcess();
      const errors: unknown[] = [];
      exitOnUncaught((error) => errors.push(error), target);
      const error = new Error("out of luck");
      target.emit(event, error);
      assert.deepEqual([target.codes, errors], [[1], [error]]);
    });
  }

  it("exits even if stderr is closed", () => {
    const target = new FakeProcess();
    exitOnUncaught(() => {
      throw new Error("EPIPE");
    }, target);
    assert.throws(() => target.emit("uncaughtException", new Error("x")));
    assert.deepEqual(target.codes, [1]);
  });
});

describe("a signal before the start", () => {
  for (const { isDaemon, codes } of [
    { isDaemon: true, codes: [0] },
    { isDaemon: false, codes: [143] },
  ]) {
    it(`ends ${isDaemon ? "the daemon with 0" : "a command with 128 + n"}`, () => {
      const target = new FakeProcess();
      endEarlyOnSignals(() => isDaemon, target);
      target.emit("SIGTERM");
      assert.deepEqual(target.codes, codes);
    });
  }

  it("is ignored once another listener exists", () => {
    const target = new FakeProcess();
    endEarlyOnSignals(() => true, target);
    target.on("SIGTERM", () => {});
    target.emit("SIGTERM");
    assert.deepEqual(target.codes, []);
  });
});

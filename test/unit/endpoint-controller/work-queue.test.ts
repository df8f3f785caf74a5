import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Retry, WorkQueue } from "../../../src/endpoint-controller/work-queue.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** A queue whose work the test completes. */
class Stage {
  readonly clock: FakeClock = new FakeClock();
  readonly begun: string[] = [];
  readonly retries: Retry[] = [];
  readonly #endings = new Map<string, (error?: Error) => void>();
  readonly queue: WorkQueue<string>;

  constructor(leastDelayMs = 0) {
    this.queue = new WorkQueue({
      clock: this.clock,
      random: () => 0,
      work: (key) => this.#work(key),
      onFailure: (_key, _error, retry) => void this.retries.push(retry),
      leastDelayMs: () => leastDelayMs,
    });
    this.queue.start();
  }

  #work(key: string): Promise<void> {
    assert.ok(!this.#endings.has(key), `${key} runs twice at the same time`);
    this.begun.push(key);
    return new Promise((resolve, reject) => {
      this.#endings.set(key, (error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  async end(key: string, error?: Error): Promise<void> {
    const end = this.#endings.get(key);
    this.#endings.delete(key);
    end?.(error);
    await this.clock.advance(0);
  }
}

describe("a work queue", () => {
  it("processes a key once if it is added many times in a burst", async () => {
    const { clock, queue, begun } = new Stage();
    for (let count = 0; count < 5; count += 1) queue.add("a");
    await clock.advance(99);
    assert.deepEqual(begun, []);
    await clock.advance(100);
    assert.deepEqual(begun, ["a"]);
  });

  it("never processes a key twice at the same time, but again if it was added in the meantime", async () => {
    const stage = new Stage();
    stage.queue.add("a");
    await stage.clock.advance(100);
    stage.queue.add("a");
    stage.queue.add("b");
    await stage.clock.advance(1_000);
    assert.deepEqual(stage.begun, ["a", "b"]);
    await stage.end("a");
    await stage.clock.advance(100);
    assert.deepEqual(stage.begun, ["a", "b", "a"]);
    await stage.end("a");
    await stage.end("b");
    assert.ok(stage.queue.isIdle);
  });

  it("processes four keys at the same time", async () => {
    const stage = new Stage();
    for (const key of ["a", "b", "c", "d", "e"]) stage.queue.add(key);
    await stage.clock.advance(100);
    assert.deepEqual(stage.begun, ["a", "b", "c", "d"]);
    await stage.end("c");
    assert.deepEqual(stage.begun, ["a", "b", "c", "d", "e"]);
  });

  it("retries after 0.5 s, 1 s and so on up to 60 s, until it succeeds", async () => {
    const stage = new Stage();
    stage.queue.add("a");
    await stage.clock.advance(100);
    for (let failures = 1; failures <= 9; failures += 1) {
      await stage.end("a", new Error("no"));
      await stage.clock.advance(60_000);
    }
    const delays = stage.retries.map(({ delayMs }) => delayMs);
    assert.deepEqual(delays, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    await stage.end("a");
    stage.queue.add("a");
    await stage.clock.advance(100);
    await stage.end("a", new Error("no"));
    assert.deepEqual(stage.retries.at(-1), { failures: 1, delayMs: 500 });
  });

  it("waits as long as the server requests, but no longer if the key is added", async () => {
    const stage = new Stage(7_000);
    stage.queue.add("a");
    await stage.clock.advance(100);
    await stage.end("a", new Error("no"));
    await stage.clock.advance(6_900);
    assert.equal(stage.begun.length, 1);
    stage.queue.add("a");
    await stage.clock.advance(100);
    assert.equal(stage.begun.length, 2);
  });

  it("waits for running work when it is stopped, and starts nothing more", async () => {
    const stage = new Stage();
    stage.queue.add("a");
    await stage.clock.advance(100);
    stage.queue.add("b");
    let isStopped = false;
    const stopping = stage.queue.stop().then(() => {
      isStopped = true;
    });
    await stage.clock.advance(1_000);
    assert.equal(isStopped, false);
    await stage.end("a");
    await stopping;
    assert.deepEqual(stage.begun, ["a"]);
  });
});

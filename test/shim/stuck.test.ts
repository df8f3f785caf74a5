/**
 * A request that the kernel does not let go of. `stall.c`, preloaded into a Node.js of its own, plays the
 * kernel lock: send(2) of a request with sequence number 0x57a10000 + n blocks for n milliseconds.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { errnos } from "./messages.ts";

const run = promisify(execFile);
const library = new URL(`../../build/native-shim/${process.arch}/stall.so`, import.meta.url);

/** Runs a program whose sockets can be made to stall; returns what it prints as JSON. */
async function stalling(lines: string): Promise<unknown> {
  const program = `
    import { readFile } from "node:fs/promises";
    import { setTimeout as delay } from "node:timers/promises";
    import { close, open, transact, transactSync } from "${new URL("../../native-shim/index.ts", import.meta.url)}";
    import { countOpenFiles, countThreads, messagesOf, noop } from "${new URL("./messages.ts", import.meta.url)}";
    const stallFor = (ms) => 0x57a10000 + ms;
    const call = (socket, sequence, timeoutMs) =>
      transact(socket, noop(sequence), 0, 16, sequence, timeoutMs);
    const startMs = performance.now();
    const elapsedMs = () => Math.round(performance.now() - startMs);
    const print = (value) => console.log(JSON.stringify(value));
    ${lines}`;
  const preloaded = [process.env["LD_PRELOAD"], fileURLToPath(library)].filter(Boolean).join(" ");
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], {
    timeout: 20_000,
    env: { ...process.env, LD_PRELOAD: preloaded },
  });
  return JSON.parse(stdout);
}

describe("a request that is stuck in the kernel", () => {
  it("ends in ETIMEDOUT in time, and nothing else of the process waits", async () => {
    const seen = (await stalling(`
      const socket = open(0, {});
      let ticks = 0;
      const ticking = setInterval(() => { ticks += 1; }, 5);
      const stuck = call(socket, stallFor(1000), 100);
      await Promise.all(Array.from({ length: 8 }, () => readFile("/proc/self/stat")));
      const readMs = elapsedMs();
      const other = await call(open(0, {}), 1, 1000);
      const { errno, operation } = await stuck;
      clearInterval(ticking);
      print({ errno, operation, ms: elapsedMs(), readMs, other: other.errno, ticks });
    `)) as {
      errno: number;
      operation: string;
      ms: number;
      readMs: number;
      other: number;
      ticks: number;
    };
    assert.deepEqual([seen.errno, seen.operation, seen.other], [errnos.ETIMEDOUT, "send", 0]);
    assert.ok(seen.ms >= 100 && seen.ms < 800, `${seen.ms} ms`);
    assert.ok(seen.readMs < 100 && seen.ticks > 5, `${seen.readMs} ms, ${seen.ticks} ticks`);
  });

  it("poisons its socket until the kernel lets go, and no longer", async () => {
    const seen = await stalling(`
      const socket = open(0, {});
      const stuck = call(socket, stallFor(600), 50);
      const queued = call(socket, 2, 100);
      const results = [await stuck, await queued, transactSync(socket, noop(3), 0, 16, 3, 50)];
      const isEarly = elapsedMs() < 600;
      const patient = await call(socket, 4, 5000);
      const after = await call(socket, 5, 5000);
      print({
        errnos: results.map(({ errno }) => errno),
        isEarly,
        patient: [patient.errno, messagesOf(patient.replies).map(({ sequence }) => sequence)],
        after: [after.errno, messagesOf(after.replies).map(({ sequence }) => sequence)],
      });
    `);
    assert.deepEqual(seen, {
      errnos: [errnos.ETIMEDOUT, errnos.ETIMEDOUT, errnos.ETIMEDOUT],
      isEarly: true,
      // The reply to the call that was given up was received, and dropped, when the kernel let go.
      patient: [0, [4]],
      after: [0, [5]],
    });
  });

  it("can be closed: its calls end with EBADF, its descriptor and thread when it comes back", async () => {
    const seen = await stalling(`
      const files = countOpenFiles();
      const threads = countThreads();
      const socket = open(0, {});
      const calls = [call(socket, stallFor(400), 5000), call(socket, 2, 5000)];
      await delay(20);
      close(socket);
      const results = await Promise.all(calls);
      const ms = elapsedMs();
      await delay(600);
      print({
        errnos: results.map(({ errno }) => errno),
        isPrompt: ms < 300,
        files: countOpenFiles() - files,
        threads: countThreads() - threads,
      });
    `);
    const { EBADF } = errnos;
    assert.deepEqual(seen, { errnos: [EBADF, EBADF], isPrompt: true, files: 0, threads: 0 });
  });

  it("does not hold up the end of the process", async () => {
    const seen = await stalling(`
      call(open(0, {}), stallFor(10000), 60);
      process.on("exit", () => print(elapsedMs() < 2000));
    `);
    assert.equal(seen, true);
  });

  it("does not hold up the end of a worker, and outlives it", async () => {
    const seen = await stalling(`
      const { Worker } = await import("node:worker_threads");
      const { once } = await import("node:events");
      const program = \`
        import { open, transact } from "${new URL("../../native-shim/index.ts", import.meta.url)}";
        import { noop } from "${new URL("./messages.ts", import.meta.url)}";
        const sequence = \${stallFor(500)};
        transact(open(0, {}), noop(sequence), 0, 16, sequence, 10000);
        setTimeout(() => process.exit(0), 50);\`;
      const worker = new Worker(new URL("data:text/javascript," + encodeURIComponent(program)));
      await once(worker, "exit");
      const isPrompt = elapsedMs() < 500;
      await delay(600);
      print({ isPrompt, errno: (await call(open(0, {}), 1, 1000)).errno });
    `);
    assert.deepEqual(seen, { isPrompt: true, errno: 0 });
  });
});

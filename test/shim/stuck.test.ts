/**
 * Tests a request that hangs in the kernel. `stall.c`, which is preloaded into a separate Node.js, simulates a kernel
 * lock: send(2) of the request with sequence number `stuck` blocks until `release()`.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { errnos } from "./messages.ts";

const run = promisify(execFile);
const library = new URL(`../../build/native-shim/${process.arch}/stall.so`, import.meta.url);
const shim = JSON.stringify(new URL("../../native-shim/index.ts", import.meta.url));
const messages = JSON.stringify(new URL("./messages.ts", import.meta.url));

const preamble = `
  import { once } from "node:events";
  import { rmSync } from "node:fs";
  import { readFile } from "node:fs/promises";
  import { setTimeout as delay } from "node:timers/promises";
  import { Worker } from "node:worker_threads";
  import { close, open, transact } from ${shim};
  import { countOpenFiles, countThreads, messagesOf, noop } from ${messages};
  const stuck = 0x57a1;
  const release = () => rmSync(process.env.STALL_FILE);
  const call = (socket, sequence, timeoutMs) =>
    transact(socket, noop(sequence), sequence, timeoutMs);
  const outcome = ({ errno, replies }) => [errno, ...messagesOf(replies).map((m) => m.sequence)];
  const print = (value) => console.log(JSON.stringify(value));`;

/** Runs a program whose sockets can hang and returns its JSON output. */
async function stalling(lines: string): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "stall-"));
  const file = join(folder, "stall");
  await writeFile(file, "");
  const preloaded = [process.env["LD_PRELOAD"], fileURLToPath(library)].filter(Boolean).join(" ");
  const env = { ...process.env, LD_PRELOAD: preloaded, STALL_FILE: file };
  try {
    const argv = ["--input-type=module", "--eval", preamble + lines];
    const { stdout } = await run(process.execPath, argv, { timeout: 20_000, env });
    return JSON.parse(stdout);
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe("a request that hangs in the kernel", () => {
  const { EBADF, ETIMEDOUT } = errnos;

  it("ends with ETIMEDOUT, and does not block the rest of the process", async () => {
    const seen = await stalling(`
      const startMs = performance.now();
      const pending = call(open(0, {}), stuck, 100);
      await Promise.all(Array.from({ length: 8 }, () => readFile("/proc/self/stat")));
      const other = await call(open(0, {}), 1, 10000);
      const { errno } = await pending;
      const isInTime = performance.now() - startMs >= 100;
      release();
      print({ errno, isInTime, other: outcome(other) });
    `);
    assert.deepEqual(seen, { errno: ETIMEDOUT, isInTime: true, other: [0, 1] });
  });

  it("makes its socket unusable until the kernel returns", async () => {
    const seen = await stalling(`
      const socket = open(0, {});
      // Long enough for the request to reach send(2) on a busy machine. After its timeout, it would not be sent.
      const early = [call(socket, stuck, 2000), call(socket, 2, 2100)];
      const poisoned = [
        ...(await Promise.all(early)),
        await call(socket, 4, 0),
      ];
      const patient = call(socket, 5, 10000);
      release();
      print({
        poisoned: poisoned.map(outcome),
        patient: outcome(await patient),
        after: outcome(await call(socket, 6, 10000)),
      });
    `);
    assert.deepEqual(seen, {
      poisoned: [[ETIMEDOUT], [ETIMEDOUT], [ETIMEDOUT]],
      // The reply to the canceled call was received and dropped when the kernel returned.
      patient: [0, 5],
      after: [0, 6],
    });
  });

  it("can be closed: calls end with EBADF immediately, the descriptor and thread later", async () => {
    const seen = await stalling(`
      const files = countOpenFiles();
      const threads = countThreads();
      const socket = open(0, {});
      const calls = [call(socket, stuck, 15000), call(socket, 2, 15000)];
      await delay(20);
      close(socket);
      const results = await Promise.all(calls);
      const isThreadLeft = countThreads() > threads;
      release();
      const isLeft = () => countOpenFiles() > files || countThreads() > threads;
      for (let tries = 0; isLeft() && tries < 1000; tries += 1) await delay(5);
      print({ results: results.map(outcome), isThreadLeft, isLeft: isLeft() });
    `);
    assert.deepEqual(seen, { results: [[EBADF], [EBADF]], isThreadLeft: true, isLeft: false });
  });

  it("does not delay the exit of the process", async () => {
    const seen = await stalling(`
      call(open(0, {}), stuck, 60).then(({ errno }) => print(errno));
    `);
    assert.equal(seen, ETIMEDOUT);
  });

  it("does not delay the exit of a worker, and outlives the worker", async () => {
    const seen = await stalling(`
      const program = \`
        import { open, transact } from ${shim};
        import { noop } from ${messages};
        transact(open(0, {}), noop(\${stuck}), \${stuck}, 15000);
        setTimeout(() => process.exit(0), 50);\`;
      const threads = countThreads();
      const worker = new Worker(new URL("data:text/javascript," + encodeURIComponent(program)));
      await once(worker, "exit");
      release();
      for (let tries = 0; countThreads() > threads && tries < 1000; tries += 1) await delay(5);
      print({ isLeft: countThreads() > threads, other: outcome(await call(open(0, {}), 1, 10000)) });
    `);
    assert.deepEqual(seen, { isLeft: false, other: [0, 1] });
  });
});

/** Tests that each worker thread has its own environment, and that ending one does not affect others. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { close, open, transact } from "../../native-shim/index.ts";
import { countOpenFiles, countThreads, noop, protocols } from "./messages.ts";

const shim = new URL("../../native-shim/index.ts", import.meta.url).href;
const messages = new URL("./messages.ts", import.meta.url).href;

function start(lines: string): Worker {
  const program = `
    import { parentPort } from "node:worker_threads";
    import { close, open, transact, watch } from ${JSON.stringify(shim)};
    import { noop } from ${JSON.stringify(messages)};
    ${lines}`;
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`));
}

const endings: readonly (readonly [string, string, boolean])[] = [
  [
    "exit by themselves",
    `const socket = open(0, {});
     await transact(socket, noop(1), 1, 5000);
     parentPort.postMessage("ready");`,
    false,
  ],
  [
    "are ended during a call",
    `transact(open(0, {}), noop(1), 2, 30000);
     parentPort.postMessage("ready");`,
    true,
  ],
  [
    "are ended while watching",
    `watch(open(0, { groups: [1] }), () => {});
     setInterval(() => {}, 1000);
     parentPort.postMessage("ready");`,
    true,
  ],
  [
    "are ended while results arrive",
    `const socket = open(0, {});
     let sequence = 1;
     const again = () => transact(socket, noop(++sequence), sequence, 5000).then(again);
     for (let count = 0; count < 50; count += 1) again();
     parentPort.postMessage("ready");`,
    true,
  ],
  [
    "exit in the middle of a callback",
    `await transact(open(0, {}), noop(1), 1, 5000);
     parentPort.postMessage("ready");
     transact(open(0, {}), noop(1), 2, 30000);
     process.exit(0);`,
    false,
  ],
];

describe("workers", () => {
  for (const [name, lines, isTerminated] of endings) {
    it(`that ${name} leave nothing behind and do not affect others`, async () => {
      const socket = open(protocols.route, {});
      await transact(socket, noop(1), 1, 5000);
      const files = countOpenFiles();
      const threads = countThreads();
      for (let round = 0; round < 6; round += 1) {
        const workers = [start(lines), start(lines)];
        await Promise.all(
          workers.map(async (worker) => {
            const exited = once(worker, "exit");
            await once(worker, "message");
            if (isTerminated) await worker.terminate();
            await exited;
          }),
        );
        const result = await transact(socket, noop(2 + round), 2 + round, 5000);
        assert.equal(result.errno, 0);
      }
      for (let tries = 0; countThreads() > threads && tries < 1000; tries += 1) await delay(5);
      assert.ok(countThreads() <= threads);
      assert.ok(countOpenFiles() <= files, `${countOpenFiles()} open files, not ${files}`);
      close(socket);
    });
  }
});

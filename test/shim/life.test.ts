/** Tests closing, garbage collection, leaks, and how sockets and the process end. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { close, open, transact, watch } from "../../native-shim/index.ts";
import { usualGrowth } from "./growth.ts";
import { countOpenFiles, countThreads, errnos, linkGroup, noop, protocols } from "./messages.ts";

const run = promisify(execFile);
/**
 * Records open files and threads. The returned function waits until no more than these are left. Threads end by
 * themselves.
 */
function leavesNothing(): () => Promise<void> {
  const files = countOpenFiles();
  const threads = countThreads();
  return async () => {
    const isSettled = (): boolean => countThreads() <= threads && countOpenFiles() <= files;
    for (let tries = 0; !isSettled() && tries < 1000; tries += 1) {
      globalThis.gc?.();
      await delay(5);
    }
    assert.ok(countThreads() <= threads, `${countThreads()} threads, not ${threads}`);
    assert.ok(countOpenFiles() <= files, `${countOpenFiles()} open files, not ${files}`);
  };
}

describe("close()", () => {
  it("ends pending calls with EBADF immediately, whether running or queued", async () => {
    const settled = leavesNothing();
    const socket = open(protocols.route, {});
    const startMs = performance.now();
    const running = transact(socket, noop(1), 99, 30_000);
    const queued = transact(socket, noop(2), 2, 30_000);
    await delay(20);
    close(socket);
    const results = await Promise.all([running, queued]);
    assert.deepEqual(
      results.map(({ errno }) => errno),
      [errnos.EBADF, errnos.EBADF],
    );
    assert.ok(performance.now() - startMs < 2000);
    await settled();
  });

  it("releases the descriptor and the thread", async () => {
    const settled = leavesNothing();
    const threads = countThreads();
    const socket = open(protocols.route, {});
    await transact(socket, noop(1), 1, 5000);
    assert.ok(countThreads() > threads);
    close(socket);
    await settled();
  });
});

describe("a socket that is dropped without close()", () => {
  it("is closed when it is garbage-collected, but not while a call is pending", async () => {
    assert.ok(globalThis.gc !== undefined, "run it with --expose-gc");
    const settled = leavesNothing();
    const pending: Promise<{ errno: number }>[] = [];
    for (let count = 0; count < 50; count += 1) {
      pending.push(transact(open(protocols.route, {}), noop(1), 2, 200));
    }
    globalThis.gc();
    const results = await Promise.all(pending);
    assert.ok(results.every(({ errno }) => errno === errnos.ETIMEDOUT));
    await settled();
  });
});

describe("many sockets", () => {
  const kinds: readonly (readonly [string, number, () => Promise<void> | void])[] = [
    ["opened and closed", 5000, () => close(open(protocols.route, {}))],
    [
      "used",
      2000,
      async () => {
        const socket = open(protocols.route, {});
        assert.equal((await transact(socket, noop(1), 1, 5000)).errno, 0);
        close(socket);
      },
    ],
    [
      "closed during a call",
      2000,
      async () => {
        const socket = open(protocols.route, {});
        const pending = transact(socket, noop(1), 2, 5000);
        close(socket);
        assert.equal((await pending).errno, errnos.EBADF);
      },
    ],
    [
      "closed while watching",
      2000,
      () => {
        const socket = open(protocols.route, { groups: [linkGroup] });
        watch(socket, () => {});
        close(socket);
      },
    ],
  ];
  for (const [name, count, cycle] of kinds) {
    it(`leave no descriptor, thread or memory behind: ${count} ${name}`, async () => {
      const settled = leavesNothing();
      // Runs in groups of hundreds, because threads that are about to exit would count as memory.
      const grown = await usualGrowth(async () => {
        for (let index = 1; index <= count / 6; index += 1) {
          await cycle();
          if (index % 100 === 0) await settled();
        }
      });
      // A leak of one receive buffer per cycle would exceed 20 MB.
      assert.ok(grown < 12 * 2 ** 20, `${grown} bytes more`);
    });
  }
});

describe("the process", () => {
  /** Runs a separate program and returns its output after it has exited by itself. */
  async function outputOf(lines: string): Promise<string> {
    const shim = JSON.stringify(
      fileURLToPath(new URL("../../native-shim/index.ts", import.meta.url)),
    );
    const messages = JSON.stringify(fileURLToPath(new URL("./messages.ts", import.meta.url)));
    const program = `
      import { close, open, transact, watch } from ${shim};
      import { flipLoopback, noop } from ${messages};
      ${lines}`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], {
      timeout: 20_000,
    });
    return stdout.trim();
  }

  const cases = [
    {
      name: "is not kept alive by an idle socket",
      lines: `const socket = open(0, {});
        await transact(socket, noop(1), 1, 5000);
        console.log("idle");`,
      want: "idle",
    },
    {
      name: "is not kept alive by a watch",
      lines: `watch(open(0, { groups: [1] }), () => {}); console.log("watching");`,
      want: "watching",
    },
    {
      name: "is kept alive by a pending call",
      lines: `transact(open(0, {}), noop(1), 2, 300).then(({ errno }) => console.log(errno));`,
      want: String(errnos.ETIMEDOUT),
    },
    {
      name: "may exit with calls and watches pending",
      lines: `transact(open(0, {}), noop(1), 2, 30000);
        watch(open(0, { groups: [1] }), () => {});
        setTimeout(() => { console.log("exit"); process.exit(0); }, 20);`,
      want: "exit",
    },
    {
      name: "treats an error from a callback as an uncaught exception",
      lines: `process.on("uncaughtException", ({ message }) => {
          console.log(message);
          process.exit(0);
        });
        watch(open(0, { groups: [1] }), () => { throw new Error("thrown by the callback"); });
        const actor = open(0, {});
        await flipLoopback(actor, 1);
        await flipLoopback(actor, 2);
        setTimeout(() => console.log("nothing thrown"), 5000);`,
      want: "thrown by the callback",
    },
  ];
  for (const { name, lines, want } of cases) {
    it(name, async () => assert.equal(await outputOf(lines), want));
  }
});

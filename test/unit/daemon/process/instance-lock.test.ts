import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  acquireInstanceLock,
  findLockHolder,
  InstanceRunningError,
  lockForCleanup,
} from "../../../../src/daemon/process/instance-lock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const nobody = 65_534;
let names = 0;
const freshName = (): string => `kube-ipvs-test-${process.pid}-${names++}`;

/** Waits for the error and returns it. */
async function refusalOf(name: string): Promise<InstanceRunningError> {
  const error = await acquireInstanceLock(name).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof InstanceRunningError, String(error));
  return error;
}

/** Starts another process that holds the lock. */
async function holderProcess(name: string, word = ""): Promise<ChildProcess> {
  const module = new URL("../../../../src/daemon/process/instance-lock.ts", import.meta.url).href;
  const script = `
    const { acquireInstanceLock } = await import(${JSON.stringify(module)});
    await acquireInstanceLock(${JSON.stringify(name)});
    setInterval(() => {}, 1000);
    console.log("held");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script, word], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout as NonNullable<ChildProcess["stdout"]>, "data");
  return child;
}

/** Starts a third-party server with the lock's name. */
async function stranger(name: string, answer: (socket: Socket) => void): Promise<() => void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    answer(socket);
  });
  server.listen(`\0${name}`);
  await once(server, "listening");
  return () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
}

describe("the instance lock", () => {
  it("is refused while it is held, and the error names the holder", async () => {
    const name = freshName();
    const lock = await acquireInstanceLock(name);
    const error = await refusalOf(name);
    assert.equal(error.holder?.pid, process.pid);
    assert.ok(
      error.message.startsWith(`Cannot start a second instance: process ${process.pid} (`),
      error.message,
    );
    assert.ok(error.message.endsWith(") is running on this node; stop it first"), error.message);
    await lock.release();
  });

  it("can be taken again after its release", async () => {
    const name = freshName();
    await (await acquireInstanceLock(name)).release();
    await (await acquireInstanceLock(name)).release();
  });

  it("is separate for each name", async () => {
    const locks = [await acquireInstanceLock(freshName()), await acquireInstanceLock(freshName())];
    for (const lock of locks) await lock.release();
  });

  it("is free as soon as its holder is killed", async () => {
    const name = freshName();
    const child = await holderProcess(name);
    assert.equal((await refusalOf(name)).holder?.pid, child.pid);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    await (await acquireInstanceLock(name)).release();
  });

  const behaviors: readonly (readonly [name: string, answer: (socket: Socket) => void])[] = [
    ["closes", (socket) => socket.end()],
    ["hangs up", (socket) => socket.destroy()],
    ["is silent", () => {}],
    ["talks endlessly", (socket) => void socket.write("x".repeat(100_000))],
  ];
  for (const [what, answer] of behaviors) {
    it(`is refused immediately, with the process, if the holder ${what}`, async () => {
      const name = freshName();
      const close = await stranger(name, answer);
      const { holder } = await refusalOf(name);
      assert.equal(holder?.pid, process.pid);
      close();
    });
  }

  it("names a holder that is suspended", async () => {
    const name = freshName();
    const child = await holderProcess(name);
    child.kill("SIGSTOP");
    const { holder, message } = await refusalOf(name);
    assert.equal(holder?.pid, child.pid);
    assert.match(message, /process \d+ \(.*--input-type=module/);
    child.kill("SIGKILL");
  });

  /** Creates a socket with the lock's name as a non-root user. Returns a function that closes it. */
  async function userWith(name: string, answer: (socket: Socket) => void): Promise<() => void> {
    process.seteuid?.(nobody);
    try {
      return await stranger(name, answer);
    } finally {
      process.seteuid?.(0);
    }
  }

  const pretended = (socket: Socket): void => void socket.end(`{"pid":1,"command":"kube-ipvs"}\n`);

  it("is acquired even if a non-root process holds its name, and then prevents a second instance", async () => {
    const [name, folder] = [freshName(), mkdtempSync(join(tmpdir(), "instance-lock-"))];
    const close = await userWith(name, pretended);
    const log = new RecordingLogger();
    const lock = await acquireInstanceLock(name, { folder, log });
    assert.deepEqual(log.lines[0]?.keys, { lock: `@${name}`, pid: process.pid, uid: nobody });
    await assert.rejects(acquireInstanceLock(name, { folder }), InstanceRunningError);
    close();
    await assert.rejects(acquireInstanceLock(name, { folder }), InstanceRunningError);
    await lock.release();
    await (await acquireInstanceLock(name, { folder })).release();
    assert.deepEqual(readdirSync(folder), []);
    rmSync(folder, { recursive: true });
  });

  it("is not reported as held by a non-root user", async () => {
    const name = freshName();
    const close = await userWith(name, pretended);
    assert.equal(await findLockHolder(name), undefined);
    close();
  });

  it("needs no folder", async () => {
    const name = freshName();
    const lock = await acquireInstanceLock(name, { folder: "/dev/null/folder" });
    await assert.rejects(
      acquireInstanceLock(name, { folder: "/dev/null/folder" }),
      InstanceRunningError,
    );
    await lock.release();
  });

  it("prevents a clean-up that a daemon would undo, and the error says how to force it", async () => {
    const name = freshName();
    const lock = await acquireInstanceLock(name);
    await assert.rejects(lockForCleanup(name), {
      name: "InstanceRunningError",
      message:
        /^Cannot clean up state .*: process \d+ \(.*; stop it first, or give --kube-ipvs-force-cleanup$/,
    });
    await lock.release();
    await (await lockForCleanup(name)).release();
  });

  it("is reported without the terminal escapes in a command line", async () => {
    const name = freshName();
    const child = await holderProcess(name, "\u001b[2J\nb");
    const { message } = await refusalOf(name);
    assert.match(message, /^[\x20-\x7e]*$/);
    child.kill("SIGKILL");
  });
});

import { mkdirSync, readlinkSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Logger } from "../../base/log.ts";
import { peerOf } from "../../kernel/socket-peer.ts";
import { removeLeftoverSocket } from "../operator/operator-socket.ts";

/** Whoever holds the lock, as far as it is known. */
export interface LockHolder {
  readonly pid: number;
  readonly command: string;
}

/** Another instance runs on this node. */
export class InstanceRunningError extends Error {
  override readonly name = "InstanceRunningError";
  readonly holder: LockHolder | undefined;

  constructor(
    lockName: string,
    holder: LockHolder | undefined,
    { what, advice }: Pick<LockOptions, "what" | "advice"> = {},
  ) {
    const who =
      holder === undefined
        ? `an unresponsive process holds the lock (find it with: ss -xlp src unix:@${lockName})`
        : `process ${holder.pid} (${holder.command}) is running on this node`;
    const remedy = `stop it first${advice === undefined ? "" : `, or ${advice}`}`;
    super(`Cannot ${what ?? "start a second instance"}: ${who}; ${remedy}`);
    this.holder = holder;
  }
}

export interface InstanceLock {
  release(): Promise<void>;
}

export interface LockOptions {
  readonly answerTimeoutMs?: number;
  /** Defaults to {@link lockFolder}. */
  readonly folder?: string;
  /** Is told of a process that is not root and holds the name. */
  readonly log?: Pick<Logger, "warn">;
  /** What cannot be done while another one holds it; absent: start a second instance. */
  readonly what?: string;
  /** What else may be done about it. */
  readonly advice?: string;
}

/** Beside a running daemon a clean-up would be undone within seconds. Throws {@link InstanceRunningError}. */
export function lockForCleanup(lockName: string): Promise<InstanceLock> {
  return acquireInstanceLock(lockName, {
    what: "clean up what a running kube-ipvs would write again",
    advice: "give --kube-ipvs-force-cleanup",
  });
}

/** How long the holder may take to say who it is. */
const defaultAnswerTimeoutMs = 1_000;
const maxAnswerLength = 500;

/** Only root may write there. */
const lockFolder = "/run/kube-ipvs";

/**
 * Takes the lock that keeps instances of one network namespace (all of a node) apart: two listening sockets, which end with
 * their holder, however it dies. A container with the host's network sees the abstract name (unix(7)) without sharing a folder,
 * but any process can take it: a holder that is not root does not count. The file belongs to a folder of root, and a process that
 * may not write there does without. Throws {@link InstanceRunningError}.
 */
export async function acquireInstanceLock(
  lockName: string,
  options: LockOptions = {},
): Promise<InstanceLock> {
  const held: Server[] = [];
  const release = async (): Promise<void> => {
    for (const server of held.splice(0)) {
      await new Promise<void>((resolve) => server.close(() => resolve()));
    }
  };
  try {
    for (const take of [takeName, takeFile]) {
      const server = await take(lockName, options);
      if (server !== undefined) held.push(server);
    }
  } catch (error) {
    await release();
    throw error;
  }
  return { release };
}

/** Undefined: a process that is not root has the name. */
async function takeName(lockName: string, options: LockOptions): Promise<Server | undefined> {
  const path = `\0${lockName}`;
  const server = makeServer();
  if (await listen(server, path)) return server;
  const { answer, uid, pid } = await ask(path, options.answerTimeoutMs ?? defaultAnswerTimeoutMs);
  if (isTrusted(uid)) throw new InstanceRunningError(lockName, readHolder(answer), options);
  options.log?.warn("Ignoring the holder of the instance lock, it is not root", {
    lock: `@${lockName}`,
    ...(pid === undefined ? {} : { pid, uid }),
  });
  return undefined;
}

/** Undefined: this process may not write to the folder. */
async function takeFile(lockName: string, options: LockOptions): Promise<Server | undefined> {
  const path = lockFile(lockName, options.folder);
  if (!canHaveFolder(dirname(path))) return undefined;
  // Of two that find the file of a killed holder, the name above stops one.
  await removeLeftoverSocket(path).catch(() => undefined);
  const server = makeServer();
  if (await listen(server, path).catch(() => undefined)) return server;
  const { answer, uid } = await ask(path, options.answerTimeoutMs ?? defaultAnswerTimeoutMs);
  if (uid === undefined) return undefined;
  throw new InstanceRunningError(lockName, readHolder(answer), options);
}

/** One for each network namespace: unlike the name, a path is the same in all of them. */
function lockFile(lockName: string, folder = lockFolder): string {
  const namespace = attempt(() => readlinkSync("/proc/self/ns/net")) ?? "";
  return join(folder, `${lockName}-${namespace.replace(/\D/g, "")}.lock`);
}

function canHaveFolder(folder: string): boolean {
  return attempt(() => mkdirSync(folder, { recursive: true, mode: 0o700 }) ?? true) !== undefined;
}

/** Root, or whoever runs this process. */
function isTrusted(uid: number | undefined): boolean {
  return uid !== undefined && (uid === 0 || uid === process.geteuid?.());
}

function makeServer(): Server {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(`${JSON.stringify(self())}\n`);
  });
  server.maxConnections = 16;
  // The lock alone must not keep the process alive.
  server.unref();
  return server;
}

/** Who has the lock now, as far as it says; undefined: nobody, or nobody who answers and is root. */
export async function findLockHolder(lockName: string): Promise<LockHolder | undefined> {
  for (const path of [`\0${lockName}`, lockFile(lockName)]) {
    const { answer, uid } = await ask(path, defaultAnswerTimeoutMs);
    const holder = isTrusted(uid) ? readHolder(answer) : undefined;
    if (holder !== undefined) return holder;
  }
  return undefined;
}

function self(): LockHolder {
  return { pid: process.pid, command: process.argv.join(" ").slice(0, maxAnswerLength / 2) };
}

/** False: the name is taken. */
function listen(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(false);
      else reject(new Error(`Cannot take the instance lock: ${error.message}`, { cause: error }));
    });
    server.listen(path, () => resolve(true));
  });
}

interface Answer {
  /** What the holder says about itself; empty if it says nothing in time. */
  readonly answer: string;
  /** Of the holder, by the kernel; absent if nobody accepts connections. */
  readonly pid?: number;
  readonly uid?: number;
}

function ask(path: string, answerTimeoutMs: number): Promise<Answer> {
  return new Promise((resolve) => {
    let answer = "";
    let peer: { readonly pid?: number; readonly uid?: number } = {};
    const socket = connect(path);
    const finish = (): void => {
      socket.destroy();
      resolve({ answer, ...peer });
    };
    socket.on("connect", () => {
      peer = peerOf(socket) ?? {};
    });
    socket.setTimeout(answerTimeoutMs, finish);
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      answer += text;
      if (answer.length >= maxAnswerLength) finish();
    });
    socket.on("error", finish);
    socket.on("close", finish);
  });
}

/** Any process of the namespace may have taken the name: the answer is not to be trusted. */
function readHolder(answer: string): LockHolder | undefined {
  const [, pid = "", command = ""] = /^\{"pid":(\d{1,10}),"command":"(.*)"\}\n$/.exec(answer) ?? [];
  if (pid === "") return undefined;
  return { pid: Number(pid), command: command.replace(/[^\x20-\x7e]|\\u[0-9a-f]{4}/g, "?") };
}

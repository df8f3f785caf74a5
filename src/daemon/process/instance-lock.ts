import { mkdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Logger } from "../../base/log.ts";
import { peerOf, type SocketPeer } from "../../kernel/socket-peer.ts";
import { removeLeftoverSocket } from "../operator/operator-socket.ts";

/** The process that holds the lock, with its PID as seen by this process. */
export interface LockHolder {
  readonly pid: number;
  readonly command: string;
}

/** Another instance is running on this node. */
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
        ? `a process that is not visible here holds the lock (find it on the node with: ss -xlp src unix:@${lockName})`
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
  /** Defaults to {@link lockFolder}. */
  readonly folder?: string;
  /** Receives a warning if a non-root process holds the name. */
  readonly log?: Pick<Logger, "warn">;
  /** The action that fails, for the error message. Defaults to "start a second instance". */
  readonly what?: string;
  /** For the error message: what the operator can do instead of stopping the process that holds the lock. */
  readonly advice?: string;
}

/** Takes the lock for a clean-up, which a running daemon would undo. Rejects with {@link InstanceRunningError}. */
export function lockForCleanup(lockName: string): Promise<InstanceLock> {
  return acquireInstanceLock(lockName, {
    what: "clean up state that a running kube-ipvs would recreate",
    advice: "give --kube-ipvs-force-cleanup",
  });
}

const maxCommandLength = 250;

/** Only root may write to this folder. */
const lockFolder = "/run/kube-ipvs";

/**
 * Takes the lock that prevents two instances in one network namespace (usually the whole node). It consists of two
 * listening sockets, which the kernel closes however their holder exits. The first has an abstract name (unix(7)),
 * which a container with the host's network can use without a shared folder. Any process can take that name, so a
 * holder that is not root is ignored. The second is a file in a folder that is owned by root. It is skipped if the
 * process may not write to that folder. Rejects with {@link InstanceRunningError}.
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

/** Resolves to undefined if a non-root process holds the name. */
async function takeName(lockName: string, options: LockOptions): Promise<Server | undefined> {
  const path = `\0${lockName}`;
  const server = makeServer();
  if (await listen(server, path)) return server;
  const peer = await listenerAt(path);
  if (peer !== undefined && isTrusted(peer))
    throw new InstanceRunningError(lockName, holderOf(peer), options);
  options.log?.warn("Ignoring the instance lock holder because it is not root", {
    lock: `@${lockName}`,
    ...peer,
  });
  return undefined;
}

/** Resolves to undefined if this process may not write to the folder. */
async function takeFile(lockName: string, options: LockOptions): Promise<Server | undefined> {
  const path = lockFile(lockName, options.folder);
  if (!canHaveFolder(dirname(path))) return undefined;
  // If two processes remove the file of a killed holder at the same time, the abstract name stops one of them.
  await removeLeftoverSocket(path).catch(() => undefined);
  const server = makeServer();
  if (await listen(server, path).catch(() => undefined)) return server;
  const peer = await listenerAt(path);
  if (peer === undefined) return undefined;
  throw new InstanceRunningError(lockName, holderOf(peer), options);
}

/** One file per network namespace: abstract names are separate in each namespace, but paths are not. */
function lockFile(lockName: string, folder = lockFolder): string {
  const namespace = attempt(() => readlinkSync("/proc/self/ns/net")) ?? "";
  return join(folder, `${lockName}-${namespace.replace(/\D/g, "")}.lock`);
}

function canHaveFolder(folder: string): boolean {
  return attempt(() => mkdirSync(folder, { recursive: true, mode: 0o700 }) ?? true) !== undefined;
}

/** Whether the peer runs as root or as this process's user. */
function isTrusted({ uid }: SocketPeer): boolean {
  return uid === 0 || uid === process.geteuid?.();
}

function makeServer(): Server {
  const server = createServer((socket) => socket.destroy());
  server.maxConnections = 16;
  // The lock must not keep the process alive.
  server.unref();
  return server;
}

/** The process that holds the lock. Undefined if no process, or only a non-root process, holds it. */
export async function findLockHolder(lockName: string): Promise<LockHolder | undefined> {
  for (const path of [`\0${lockName}`, lockFile(lockName)]) {
    const peer = await listenerAt(path);
    if (peer !== undefined && isTrusted(peer))
      return holderOf(peer) ?? { pid: peer.pid, command: "" };
  }
  return undefined;
}

/** Resolves with false if the name is in use. */
function listen(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(false);
      else reject(new Error(`Cannot take the instance lock: ${error.message}`, { cause: error }));
    });
    server.listen(path, () => resolve(true));
  });
}

/** The process that listens at a path, as reported by the kernel. Undefined if no process is listening. */
function listenerAt(path: string): Promise<SocketPeer | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      resolve(peerOf(socket));
      socket.destroy();
    });
    socket.on("error", () => resolve(undefined));
  });
}

/**
 * Undefined if the process is in a different container. Replaces unprintable characters in the command, which must not
 * reach a terminal.
 */
function holderOf({ pid }: SocketPeer): LockHolder | undefined {
  const words =
    pid === 0 ? undefined : attempt(() => readFileSync(`/proc/${pid}/cmdline`, "latin1"));
  if (words === undefined) return undefined;
  const command = words.replace(/\0$/, "").replaceAll("\0", " ").slice(0, maxCommandLength);
  return { pid, command: command.replace(/[^\x20-\x7e]/g, "?") };
}

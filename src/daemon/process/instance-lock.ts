import { mkdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { attempt } from "../../base/attempt.ts";
import type { Logger } from "../../base/log.ts";
import { peerOf, type SocketPeer } from "../../kernel/socket-peer.ts";
import { removeLeftoverSocket } from "../operator/operator-socket.ts";

/** The process that holds the lock, as this process sees it. */
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

const maxCommandLength = 250;

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
  const peer = await listenerAt(path);
  if (peer !== undefined && isTrusted(peer))
    throw new InstanceRunningError(lockName, holderOf(peer), options);
  options.log?.warn("Ignoring the holder of the instance lock, it is not root", {
    lock: `@${lockName}`,
    ...peer,
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
  const peer = await listenerAt(path);
  if (peer === undefined) return undefined;
  throw new InstanceRunningError(lockName, holderOf(peer), options);
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
function isTrusted({ uid }: SocketPeer): boolean {
  return uid === 0 || uid === process.geteuid?.();
}

function makeServer(): Server {
  const server = createServer((socket) => socket.destroy());
  server.maxConnections = 16;
  // The lock alone must not keep the process alive.
  server.unref();
  return server;
}

/** The process that has the lock now. Undefined if nobody has it, or only a process that is not root. */
export async function findLockHolder(lockName: string): Promise<LockHolder | undefined> {
  for (const path of [`\0${lockName}`, lockFile(lockName)]) {
    const peer = await listenerAt(path);
    if (peer !== undefined && isTrusted(peer))
      return holderOf(peer) ?? { pid: peer.pid, command: "" };
  }
  return undefined;
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

/** The process that listens at a path, by the kernel. Undefined if nobody accepts connections. */
function listenerAt(path: string): Promise<SocketPeer | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      resolve(peerOf(socket));
      socket.destroy();
    });
    socket.on("error", () => resolve(undefined));
  });
}

/** Undefined if the process is in another container. Its command is not to be trusted on a terminal. */
function holderOf({ pid }: SocketPeer): LockHolder | undefined {
  const words =
    pid === 0 ? undefined : attempt(() => readFileSync(`/proc/${pid}/cmdline`, "latin1"));
  if (words === undefined) return undefined;
  const command = words.replace(/\0$/, "").replaceAll("\0", " ").slice(0, maxCommandLength);
  return { pid, command: command.replace(/[^\x20-\x7e]/g, "?") };
}

import { connect, createServer, type Server } from "node:net";

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

/**
 * Takes the lock that keeps instances of one network namespace (all of a node) apart: a listening socket
 * with an abstract name (unix(7)). The kernel frees it when its holder dies, however it dies, and a
 * container with the host's network sees it without sharing a folder. Throws {@link InstanceRunningError}.
 */
export async function acquireInstanceLock(
  lockName: string,
  options: LockOptions = {},
): Promise<InstanceLock> {
  const { answerTimeoutMs = defaultAnswerTimeoutMs } = options;
  const path = `\0${lockName}`;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(`${JSON.stringify(self())}\n`);
  });
  server.maxConnections = 16;
  // The lock alone must not keep the process alive.
  server.unref();
  if (!(await listen(server, path))) {
    throw new InstanceRunningError(lockName, readHolder(await ask(path, answerTimeoutMs)), options);
  }
  return {
    release: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Who has the lock now, as far as it says; undefined: nobody, or nobody who answers. */
export async function findLockHolder(lockName: string): Promise<LockHolder | undefined> {
  return readHolder(await ask(`\0${lockName}`, defaultAnswerTimeoutMs));
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

/** What the holder says about itself; empty when it says nothing in time. */
function ask(path: string, answerTimeoutMs: number): Promise<string> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(path);
    const finish = (): void => {
      socket.destroy();
      resolve(answer);
    };
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

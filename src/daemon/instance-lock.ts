import { connect, createServer, type Server } from "node:net";

/** Whoever holds the lock, as far as it told. */
export interface LockHolder {
  readonly pid: number;
  readonly command: string;
}

/** Another instance runs on this node. */
export class InstanceRunningError extends Error {
  override readonly name = "InstanceRunningError";
  readonly holder: LockHolder | undefined;

  constructor(lockName: string, holder: LockHolder | undefined) {
    const who =
      holder === undefined
        ? `a process that does not answer holds the lock (ss -xlp src unix:@${lockName} shows it)`
        : `process ${holder.pid} (${holder.command}) runs on this node`;
    super(`Cannot start a second instance: ${who}; stop that one first`);
    this.holder = holder;
  }
}

export interface InstanceLock {
  release(): Promise<void>;
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
  { answerTimeoutMs = defaultAnswerTimeoutMs }: { readonly answerTimeoutMs?: number } = {},
): Promise<InstanceLock> {
  const path = `\0${lockName}`;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(`${JSON.stringify(self())}\n`);
  });
  server.maxConnections = 16;
  // The lock alone must not keep the process alive.
  server.unref();
  if (!(await listen(server, path))) {
    throw new InstanceRunningError(lockName, readHolder(await ask(path, answerTimeoutMs)));
  }
  return {
    release: () => new Promise((resolve) => server.close(() => resolve())),
  };
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

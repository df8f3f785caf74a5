/**
 * Clients that count failures: `node traffic-client.ts COUNT [!]ADDRESS:PORT@OWN-ADDRESS…`. COUNT connections to
 * each target stay open and send a byte every half second. Every 50 ms, a new connection to one of the targets is opened, gets an
 * answer and is closed. Broken connections are reopened. Commands on standard input: `figures` prints a line of JSON
 * with the counts since the last such command. It first waits until every new connection has its answer or failure and
 * every open one has answered another byte, so that a slow answer on a busy machine does not count as broken. `reopen`
 * replaces all connections without counting them. Each target has its own client address. Otherwise, two connections
 * from one port through two frontends to one pod would affect each other, because IPVS identifies answers by client,
 * client port and real server. `!` marks a target that must not admit this client: each turn tries to connect to it and
 * counts successes.
 */
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const longPerTarget = Number(process.argv[2]);
/** Duration of one turn of this process. */
const turnMs = 50;
/** Turns between two bytes on an open connection. More bytes would cause half of all work in the lab. */
const turnsPerByte = 10;
/** How long to try a connection that must not be admitted. */
const shutTryMs = 500;
/** Delay before a broken connection is replaced. */
const reopenMs = 500;
/** A minute, counted in turns of this process so that a paused machine does not count as silence. */
const patienceTurns = 1_200;

const figures = {
  broken: 0,
  short: 0,
  failed: 0,
  tried: 0,
  admitted: 0,
  reasons: {} as Record<string, number>,
};

interface Target {
  readonly host: string;
  readonly port: number;
  readonly localAddress: string;
}

/** The targets whose arguments begin with `mark`. */
function targetsWith(mark: "" | "!"): readonly Target[] {
  const given = process.argv.slice(3).filter((target) => target.startsWith("!") === (mark === "!"));
  return given.map((target) => {
    const [host = "", port = "", localAddress = ""] = target.slice(mark.length).split(/[:@]/);
    return { host, port: Number(port), localAddress };
  });
}

const targets = targetsWith("");
const shutTargets = targetsWith("!");

/** All connections that should stay open, those that are open, and new ones in progress. Others are not counted. */
const held = new Set<Socket>();
const standing = new Set<Socket>();
const opening = new Set<Socket>();

function note(reason: string): void {
  figures.reasons[reason] = (figures.reasons[reason] ?? 0) + 1;
}

/** Called at each turn. */
const everyTurn = new Set<() => void>();

/**
 * Calls `end` once with a reason: an error, a close, or a silence that is too long. Returns a function that stops
 * watching.
 */
function watchOver(socket: Socket, end: (reason: string) => void): () => void {
  let turnsLeft = patienceTurns;
  const countDown = (): void => {
    if (--turnsLeft === 0) finish("silence");
  };
  everyTurn.add(countDown);
  const finish = (reason: string): void => {
    if (!everyTurn.delete(countDown)) return;
    socket.destroy();
    end(reason);
  };
  socket.on("data", () => {
    turnsLeft = patienceTurns;
  });
  socket.on("error", (error: NodeJS.ErrnoException) => finish(error.code ?? "error"));
  socket.on("close", () => finish("closed"));
  return () => void everyTurn.delete(countDown);
}

function openShort(target: Target): void {
  const socket = connect(target, () => socket.write("x"));
  opening.add(socket);
  const isCounted = (): boolean => opening.delete(socket);
  const stop = watchOver(socket, (reason) => {
    if (!isCounted()) return;
    figures.short += 1;
    figures.failed += 1;
    note(`short: ${reason} of ${target.host}`);
  });
  socket.on("data", () => {
    stop();
    if (isCounted()) figures.short += 1;
    socket.destroy();
  });
}

/** A refused or closed connection was not admitted. */
function tryShut(target: Target): void {
  const socket = connect(target, () => {
    figures.admitted += 1;
    note(`admitted ${target.localAddress} to ${target.host}`);
  });
  figures.tried += 1;
  socket.on("error", () => {});
  setTimeout(() => socket.destroy(), shutTryMs);
}

function holdLong(target: Target): void {
  const socket = connect(target, () => standing.add(socket));
  held.add(socket);
  watchOver(socket, (reason) => {
    held.delete(socket);
    if (standing.delete(socket)) {
      figures.broken += 1;
      note(`long: ${reason} of ${target.host}`);
    }
    setTimeout(() => holdLong(target), reopenMs);
  });
}

/**
 * Resolves when every connection at the time of the call has ended or has answered a byte that was sent after the call.
 */
async function settle(): Promise<void> {
  const begun = [...opening];
  const asked = [...standing].map((socket) => {
    socket.write("x");
    return { socket, goal: socket.bytesWritten };
  });
  const isWaiting = (): boolean =>
    begun.some((socket) => opening.has(socket)) ||
    asked.some(({ socket, goal }) => standing.has(socket) && socket.bytesRead < goal);
  while (isWaiting()) await pause(turnMs);
}

const commands: Readonly<Record<string, () => Promise<void>>> = {
  figures: async () => {
    await settle();
    console.log(JSON.stringify({ ...figures, long: standing.size }));
    Object.assign(figures, { broken: 0, short: 0, failed: 0, tried: 0, admitted: 0, reasons: {} });
  },
  reopen: async () => {
    const given = [...held, ...opening];
    standing.clear();
    opening.clear();
    for (const socket of given) socket.destroy();
  },
};

for (const target of targets) for (let made = 0; made < longPerTarget; made++) holdLong(target);
let turn = 0;
setInterval(() => {
  turn += 1;
  for (const call of everyTurn) call();
  const target = targets[turn % targets.length];
  if (target !== undefined) openShort(target);
  for (const shut of shutTargets) tryShut(shut);
  if (turn % turnsPerByte === 0) for (const socket of standing) socket.write("x");
}, turnMs);

createInterface(process.stdin)
  .on("line", (line) => void commands[line]?.())
  .on("close", () => process.exit(0));

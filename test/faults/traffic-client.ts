/**
 * Clients that count, `node traffic-client.ts ADDRESS:PORT@OWN-ADDRESS…`: ten connections to each target stay and carry
 * a byte each half second; each 50 ms one more is opened to one of the targets, gets an answer and ends. Connections
 * that broke are opened again. Lines on standard input:
 *
 * - `figures`: answered with a line of JSON, what came since the last such line. First everything gets its end: each
 *   new connection its answer or its failure, each one that stands the answer to a byte sent after the question – so
 *   that a busy machine counts nothing as broken that only takes its time.
 * - `reopen`: all connections are given up without being counted, and new ones take their places.
 *
 * Each target has an address of its own to be called from: IPVS distinguishes answers by client, client's port and real
 * server alone, so that two connections from one port through two frontends of one pod would disturb each other.
 */
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const longPerTarget = 10;
/** A turn of this process. */
const turnMs = 50;
/** Between two bytes over a connection that stays: more would be half of all work in the lab. */
const turnsPerByte = 10;
/** Before another connection takes the place of one that broke. */
const reopenMs = 500;
/** A minute of own turns, not of the clock: where the machine stood still, nobody was silent. */
const patienceTurns = 1_200;

const figures = { broken: 0, short: 0, failed: 0, reasons: {} as Record<string, number> };

interface Target {
  readonly host: string;
  readonly port: number;
  readonly localAddress: string;
}

const targets: readonly Target[] = process.argv.slice(2).map((target) => {
  const [host = "", port = "", localAddress = ""] = target.split(/[:@]/);
  return { host, port: Number(port), localAddress };
});

/** All that are to stay; those of them that stand; new ones on their way. What is in none of these is not counted. */
const held = new Set<Socket>();
const standing = new Set<Socket>();
const opening = new Set<Socket>();

function note(reason: string): void {
  figures.reasons[reason] = (figures.reasons[reason] ?? 0) + 1;
}

/** Called at each turn. */
const everyTurn = new Set<() => void>();

/** Calls `end` once: with a reason after an error, an end, or too long a silence. The result ends the watch. */
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

/** Resolves when all that was there at the call has its end, or its answer to a byte of after the call. */
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
    Object.assign(figures, { broken: 0, short: 0, failed: 0, reasons: {} });
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
  if (turn % turnsPerByte === 0) for (const socket of standing) socket.write("x");
}, turnMs);

createInterface(process.stdin)
  .on("line", (line) => void commands[line]?.())
  .on("close", () => process.exit(0));

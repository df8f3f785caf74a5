/**
 * Clients that count, `node traffic-client.ts ADDRESS:PORT@OWN-ADDRESS…`: ten connections to each target stay and carry a byte
 * each 50 ms; each 50 ms one more is opened to one of the targets, gets an answer and ends. A line on standard
 * input asks for the figures since the last line; they come as one line of JSON. Connections that broke are opened
 * again.
 *
 * Each target has an address of its own to be called from: IPVS tells answers apart by client, client's port and real
 * server alone, so that two connections from one port through two frontends of one pod would disturb each other.
 */
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";

const longPerTarget = 10;
const intervalMs = 50;
/** Ten seconds of this process's own turns, not of the clock: where the machine stood still, nobody was silent. */
const patienceTurns = 200;

const figures = { long: 0, broken: 0, short: 0, failed: 0, reasons: {} as Record<string, number> };

interface Target {
  readonly host: string;
  readonly port: number;
  readonly localAddress: string;
}

const targets: readonly Target[] = process.argv.slice(2).map((target) => {
  const [host = "", port = "", localAddress = ""] = target.split(/[:@]/);
  return { host, port: Number(port), localAddress };
});

function note(reason: string): void {
  figures.reasons[reason] = (figures.reasons[reason] ?? 0) + 1;
}

function once(socket: Socket, finish: (reason: string | undefined) => void): void {
  let isOver = false;
  const end = (reason: string | undefined): void => {
    if (isOver) return;
    isOver = true;
    clearInterval(timer);
    socket.destroy();
    finish(reason);
  };
  let turnsLeft = patienceTurns;
  const timer = setInterval(() => {
    if (--turnsLeft === 0) end("silence");
  }, intervalMs);
  socket.on("error", (error: NodeJS.ErrnoException) => end(error.code ?? "error"));
  socket.on("close", () => end("closed"));
  socket.on("data", () => end(undefined));
}

function openShort(target: Target): void {
  const socket = connect(target, () => socket.write("x"));
  once(socket, (reason) => {
    figures.short += 1;
    if (reason === undefined) return;
    figures.failed += 1;
    note(`short: ${reason}`);
  });
}

function holdLong(target: Target): void {
  let isOpen = false;
  let turnsLeft = patienceTurns;
  const timer = setInterval(() => {
    if (isOpen) socket.write("x");
    if (--turnsLeft === 0) end("silence");
  }, intervalMs);
  const socket = connect(target, () => {
    isOpen = true;
    figures.long += 1;
  });
  const end = (reason: string): void => {
    socket.destroy();
    clearInterval(timer);
    socket.removeAllListeners();
    socket.on("error", () => {});
    if (isOpen) {
      figures.long -= 1;
      figures.broken += 1;
      const { bytesWritten, bytesRead, writableLength } = socket;
      note(
        `long: ${reason} of ${target.host}, ${bytesWritten} sent, ${writableLength} waiting, ${bytesRead} back`,
      );
    }
    setTimeout(() => holdLong(target), 500);
  };
  socket.on("data", () => {
    turnsLeft = patienceTurns;
  });
  socket.on("error", (error: NodeJS.ErrnoException) => end(error.code ?? "error"));
  socket.on("close", () => end("closed"));
}

for (const target of targets) for (let made = 0; made < longPerTarget; made++) holdLong(target);
let turn = 0;
setInterval(() => {
  const target = targets[turn++ % targets.length];
  if (target !== undefined) openShort(target);
}, intervalMs);

createInterface(process.stdin)
  .on("line", () => {
    console.log(JSON.stringify(figures));
    Object.assign(figures, { broken: 0, short: 0, failed: 0, reasons: {} });
  })
  .on("close", () => process.exit(0));

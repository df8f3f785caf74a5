/**
 * Keeps connections open. `echo PORT` returns the bytes that it receives. `connect ADDRESS PORT` opens ten connections
 * and sends a byte over each every half second. On SIGTERM, it prints the number of connections, answers and broken
 * connections (an error, a close, or ten seconds without an answer). Sending more bytes would cause a third of all work
 * in the lab without improving results.
 */
import { connect, createServer, type Socket } from "node:net";

const connectionCount = 10;
const intervalMs = 500;
const silenceMs = 10_000;

function serve(port: number): void {
  createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.pipe(socket);
  }).listen(port, "0.0.0.0");
}

interface Tally {
  opened: number;
  echoes: number;
  broken: number;
}

function hold(address: string, port: number, tally: Tally): () => void {
  const socket: Socket = connect(port, address);
  let isOver = false;
  const breakOff = (): void => {
    if (!isOver) tally.broken += 1;
    isOver = true;
    socket.destroy();
  };
  socket.on("connect", () => {
    tally.opened += 1;
  });
  socket.on("data", (chunk: Buffer) => {
    tally.echoes += chunk.length;
  });
  socket.on("error", breakOff);
  socket.on("close", breakOff);
  socket.setTimeout(silenceMs, breakOff);
  const timer = setInterval(() => socket.write("x"), intervalMs);
  return () => {
    isOver = true;
    clearInterval(timer);
    socket.destroy();
  };
}

function keepConnections(address: string, port: number): void {
  const tally: Tally = { opened: 0, echoes: 0, broken: 0 };
  const ends: (() => void)[] = [];
  // The echo server may still be starting.
  setTimeout(() => {
    for (let made = 0; made < connectionCount; made++) ends.push(hold(address, port, tally));
  }, 1_000);
  process.on("SIGTERM", () => {
    for (const end of ends) end();
    console.log(JSON.stringify(tally));
    process.exit(0);
  });
}

const [role, ...rest] = process.argv.slice(2);
if (role === "echo") serve(Number(rest[0]));
else keepConnections(rest[0] ?? "", Number(rest[1]));

/**
 * Keeps connections open. `echo PORT` returns the bytes that it receives, and answers `GET` with a weight. `connect
 * ADDRESS PORT` opens ten connections and sends a byte over each every half second. On SIGTERM, it prints the number of
 * connections, answers and broken connections. A connection is broken by an error, a close, or ten seconds without an
 * answer, including the answer to a last byte. Sending more bytes would cause a third of all work in the lab without
 * improving results.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";

const connectionCount = 10;
const intervalMs = 500;
/**
 * Maximum number of bytes without an answer, which corresponds to ten seconds. The socket's own timeout would start
 * again at each byte that is sent.
 */
const mostUnanswered = 20;

/** The last number of the socket's own address, as a weight that an endpoint reports. */
function weightOf({ localAddress = "" }: Socket): string {
  return `HTTP/1.1 200 OK\r\n\r\n${localAddress.split(".").at(-1)}`;
}

function serve(port: number): void {
  createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      if (chunk.toString("latin1", 0, 4) === "GET ") socket.end(weightOf(socket));
      else socket.write(chunk);
    });
    socket.on("end", () => socket.end());
  }).listen(port, "0.0.0.0");
}

interface Tally {
  opened: number;
  echoes: number;
  broken: number;
}

/** Returns a function that waits for the answer to a last byte, then closes the connection. */
function hold(address: string, port: number, tally: Tally): () => Promise<void> {
  const socket: Socket = connect(port, address);
  let [isOver, unanswered] = [false, 0];
  const breakOff = (): void => {
    if (!isOver) tally.broken += 1;
    isOver = true;
    clearInterval(timer);
    socket.destroy();
  };
  socket.on("connect", () => {
    tally.opened += 1;
  });
  socket.on("data", (chunk: Buffer) => {
    unanswered = 0;
    tally.echoes += chunk.length;
  });
  socket.on("error", breakOff);
  socket.on("close", breakOff);
  const timer = setInterval(() => {
    unanswered += 1;
    if (unanswered > mostUnanswered) breakOff();
    else socket.write("x");
  }, intervalMs);
  return async () => {
    socket.write("x");
    const wanted = socket.bytesWritten;
    while (!isOver && socket.bytesRead < wanted) await pause(intervalMs / 10);
    isOver = true;
    clearInterval(timer);
    socket.destroy();
  };
}

async function keepConnections(address: string, port: number): Promise<void> {
  const tally: Tally = { opened: 0, echoes: 0, broken: 0 };
  const ends: (() => Promise<void>)[] = [];
  // The echo server may still be starting.
  setTimeout(() => {
    for (let made = 0; made < connectionCount; made++) ends.push(hold(address, port, tally));
  }, 1_000);
  await once(process, "SIGTERM");
  await Promise.all(ends.map((end) => end()));
  console.log(JSON.stringify(tally));
  process.exit(0);
}

const [role, ...rest] = process.argv.slice(2);
if (role === "echo") serve(Number(rest[0]));
else await keepConnections(rest[0] ?? "", Number(rest[1]));

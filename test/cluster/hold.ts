/**
 * `hold.ts ADDRESS:PORT…`: keeps a connection to each backend open, as `kube-ipvs-e2e hold` does for one backend. It
 * prints one line per connection when all are open, and another with its result when standard input ends.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { type HeldConnection, readGreeting, requests } from "../../src/e2e/pod/conversation.ts";

/** Limit for all connections together. */
const maxPingsPerSecond = 250;
const minPeriodMs = 200;
const connectMs = 5_000;

interface Held {
  readonly socket: Socket;
  readonly name: string;
  pings: number;
  ending: string;
}

async function hold(target: string): Promise<Held> {
  const [host = "", port] = target.split(":");
  const socket = connect({ host, port: Number(port) });
  const lines = createInterface(socket);
  socket.write(`${requests.hold}\n`);
  const [line] = await once(lines, "line", { signal: AbortSignal.timeout(connectMs) });
  const held: Held = { socket, name: readGreeting(String(line)).name, pings: 0, ending: "open" };
  lines.on("line", () => {
    held.pings += 1;
  });
  lines.on("error", () => {});
  socket.on("error", ({ code = "error" }: NodeJS.ErrnoException) => {
    held.ending = code;
  });
  socket.on("close", () => {
    if (held.ending === "open") held.ending = "end";
  });
  return held;
}

const held: Held[] = [];
try {
  for (const target of process.argv.slice(2)) held.push(await hold(target));
} catch (error) {
  console.error(`hold: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
for (const { name } of held) console.log(JSON.stringify({ name }));
const timer = setInterval(
  () => {
    for (const { socket, ending } of held) if (ending === "open") socket.write("ping\n");
  },
  Math.max(minPeriodMs, (held.length * 1_000) / maxPingsPerSecond),
);
process.stdin.resume();
await once(process.stdin, "end");
clearInterval(timer);
for (const { socket, name, pings, ending } of held) {
  console.log(JSON.stringify({ name, pings, ending } satisfies HeldConnection));
  socket.destroy();
}

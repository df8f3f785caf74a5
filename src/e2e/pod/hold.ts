/**
 * `kube-ipvs-e2e hold ADDRESS PORT`: keeps one connection in use until something arrives on standard input. Prints who
 * answered when it is open, and what became of it at the end, a line of JSON each.
 */
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { systemErrorCode } from "../../base/system-error-text.ts";
import { type HeldConnection, readGreeting, wishes } from "./conversation.ts";

const pingPeriodMs = 200;
const connectMs = 5_000;

export interface HoldOptions {
  readonly print: (line: string) => void;
  /** Resolves when it is enough. */
  readonly stopped: Promise<unknown>;
}

/** Rejects where the connection cannot be opened. */
export async function hold(address: string, port: number, options: HoldOptions): Promise<void> {
  const socket = connect({ host: address, port, timeout: connectMs });
  const lines = createInterface(socket);
  lines.on("error", () => {});
  const opened = Promise.withResolvers<string>();
  const over = Promise.withResolvers<string>();
  let pings = 0;
  socket.on("connect", () => {
    socket.setTimeout(0);
    socket.write(`${wishes.hold}\n`);
  });
  lines.once("line", (line) => {
    opened.resolve(line);
    lines.on("line", () => {
      pings += 1;
    });
  });
  socket.on("timeout", () => socket.destroy(new Error("timeout")));
  socket.on("error", (error) => over.resolve(systemErrorCode(error) ?? error.message));
  socket.on("close", () => over.resolve("end"));
  over.promise
    .then((ending) => opened.reject(new Error(`Cannot connect to ${address}:${port}: ${ending}`)))
    .catch(opened.reject);
  const { name } = readGreeting(await opened.promise);
  options.print(JSON.stringify({ name }));
  const timer = setInterval(() => socket.write("ping\n"), pingPeriodMs);
  const ending = await Promise.race([over.promise, options.stopped.then(() => "open")]);
  clearInterval(timer);
  socket.destroy();
  options.print(JSON.stringify({ name, pings, ending } satisfies HeldConnection));
}

/**
 * `kube-ipvs-e2e hold ADDRESS PORT`: keeps a connection active until standard input has data or ends. Prints one line
 * of JSON with the backend's name when the connection is open, and one with the result at the end.
 */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { systemErrorCode } from "../../base/system-error-text.ts";
import { type HeldConnection, readGreeting, requests } from "./conversation.ts";

const pingPeriodMs = 200;
const connectMs = 5_000;

/** Rejects if the connection cannot be opened. */
export async function run([host = "", port = ""]: readonly string[]): Promise<undefined> {
  const stopped = Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
  const socket = connect({ host, port: Number(port), timeout: connectMs });
  const lines = createInterface(socket);
  const opened = Promise.withResolvers<string>();
  const over = Promise.withResolvers<string>();
  socket.on("connect", () => socket.setTimeout(0));
  socket.on("timeout", () => socket.destroy(new Error("timeout")));
  socket.on("error", (error) => over.resolve(systemErrorCode(error) ?? error.message));
  socket.on("close", () => over.resolve("end"));
  lines.on("error", () => {});
  lines.once("line", opened.resolve);
  socket.write(`${requests.hold}\n`);
  const unopened = over.promise.then((ending) => {
    throw new Error(`Cannot connect to ${host}:${port}: ${ending}`);
  });
  const { name } = readGreeting(await Promise.race([opened.promise, unopened]));
  writeSync(1, `${JSON.stringify({ name })}\n`);
  let pings = 0;
  lines.on("line", () => {
    pings += 1;
  });
  const timer = setInterval(() => socket.write("ping\n"), pingPeriodMs);
  const ending = await Promise.race([over.promise, stopped.then(() => "open")]);
  clearInterval(timer);
  socket.destroy();
  writeSync(1, `${JSON.stringify({ name, pings, ending } satisfies HeldConnection)}\n`);
}

/**
 * `kube-ipvs-e2e hold ADDRESS PORT`: keeps a connection active until standard input has data or ends. Prints one line
 * of JSON with the backend's name when the connection is open, and one with the result at the end.
 */
import { once } from "node:events";
import { writeSync } from "node:fs";
import { openConnection } from "./open-connection.ts";

const pingPeriodMs = 200;

/** Runs the command. Rejects if the connection cannot be opened. */
export async function run([host = "", port = ""]: readonly string[]): Promise<undefined> {
  const stopped = Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
  const connection = await openConnection(host, Number(port));
  writeSync(1, `${JSON.stringify({ name: connection.name })}\n`);
  const timer = setInterval(connection.ping, pingPeriodMs);
  await Promise.race([connection.closed, stopped]);
  clearInterval(timer);
  writeSync(1, `${JSON.stringify(await connection.end())}\n`);
}

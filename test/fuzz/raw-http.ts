/** Sends raw bytes to an HTTP server, and reads the returned statuses. */
import assert from "node:assert/strict";
import { connect, type NetConnectOpts } from "node:net";

const timeoutMs = 20_000;

/** Sends raw bytes and closes its side. The server may answer or not, but must close the connection. */
export function ask(place: NetConnectOpts, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(place);
    socket.setTimeout(timeoutMs, () =>
      reject(new Error("the server did not close the connection")),
    );
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
    socket.end(text);
  });
}

/** The statuses in the response. Undefined if there was none. */
export function statusesIn(answer: string): readonly number[] | undefined {
  if (answer === "") return undefined;
  const statuses = [...answer.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status));
  assert.ok(statuses.length > 0, answer.slice(0, 200));
  return statuses;
}

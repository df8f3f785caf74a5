/** Raw bytes to an HTTP server, and the statuses that come back. */
import assert from "node:assert/strict";
import { connect, type NetConnectOpts } from "node:net";

const timeoutMs = 20_000;

/** Sends raw bytes. The other side says that it has said all: an answer, or none, and the end must come. */
export function ask(place: NetConnectOpts, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(place);
    socket.setTimeout(timeoutMs, () => reject(new Error("no end came")));
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
    socket.end(text);
  });
}

/** Undefined: it said nothing. */
export function statusesIn(answer: string): readonly number[] | undefined {
  if (answer === "") return undefined;
  const statuses = [...answer.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status));
  assert.ok(statuses.length > 0, answer.slice(0, 200));
  return statuses;
}

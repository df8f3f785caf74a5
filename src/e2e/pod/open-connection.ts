/** A connection that a backend answers line by line until it is ended. */
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { systemErrorCode } from "../../base/system-error-text.ts";
import { type HeldConnection, readGreeting, requests } from "./conversation.ts";

const connectMs = 5_000;
const answerMs = 10_000;
/** Differs from all earlier lines, so that only the answer to this line counts. */
const lastLine = "last";

export interface OpenConnection {
  /** The backend's name. */
  readonly name: string;
  /** Resolves with the reason if the connection ends before `end`. */
  readonly closed: Promise<string>;
  ping(): void;
  /** Sends a last line and waits up to ten seconds for its answer. Then closes the connection. */
  end(): Promise<HeldConnection>;
}

/** Connects to a backend. Rejects if the connection cannot be opened, or if the backend does not send its name. */
export async function openConnection(host: string, port: number): Promise<OpenConnection> {
  const socket = connect({ host, port, timeout: connectMs });
  const lines = createInterface(socket);
  const opened = Promise.withResolvers<string>();
  const closed = Promise.withResolvers<string>();
  const answered = Promise.withResolvers<string>();
  socket.on("timeout", () => socket.destroy(new Error("timeout")));
  socket.on("error", (error) => closed.resolve(systemErrorCode(error) ?? error.message));
  socket.on("end", () => closed.resolve("end"));
  socket.on("close", () => closed.resolve("end"));
  lines.on("error", () => {});
  lines.once("line", opened.resolve);
  socket.write(`${requests.hold}\n`);
  const unopened = closed.promise.then((ending) => {
    throw new Error(`Cannot connect to ${host}:${port}: ${ending}`);
  });
  const { name } = readGreeting(await Promise.race([opened.promise, unopened]));
  socket.setTimeout(0);
  let pings = 0;
  lines.on("line", (line) => {
    pings += 1;
    if (line === lastLine) answered.resolve("open");
  });
  return {
    name,
    closed: closed.promise,
    ping: () => void socket.write("ping\n"),
    end: async () => {
      const timer = setTimeout(() => answered.resolve("no answer"), answerMs);
      socket.write(`${lastLine}\n`);
      const ending = await Promise.race([closed.promise, answered.promise]);
      clearTimeout(timer);
      socket.destroy();
      return { name, pings, ending };
    },
  };
}

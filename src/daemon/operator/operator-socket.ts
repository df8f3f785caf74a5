import { once } from "node:events";
import { lstatSync, mkdirSync, unlinkSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { closeServer } from "../http/http-listener.ts";
import { listText } from "./list-text.ts";
import { type AnswerSources, answerTo, failure, type OperatorAnswer } from "./routes.ts";

export interface OperatorSocketContext extends AnswerSources {
  readonly clock: Clock;
  readonly log: Logger;
  /** Defaults to {@link answerTimeoutMs}. */
  readonly timeoutMs?: number;
}

/** Only root can connect, so these limits guard against mistakes, not attacks. */
const limits = {
  maxHeaderSize: 4_096,
  headersTimeout: 2_000,
  requestTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
} as const;
const maxConnections = 16;
/** A connection whose answer takes longer than this is closed. */
const answerTimeoutMs = 60_000;

/**
 * Answers operator commands on a Unix socket, one GET request per connection. If the socket cannot be opened, logs a
 * warning, and the daemon runs without it. Returns a function that closes the socket.
 */
export async function openOperatorSocket(
  path: string,
  context: OperatorSocketContext,
): Promise<() => Promise<void>> {
  const nothing = async (): Promise<void> => {};
  if (path === "") return nothing;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    await removeLeftoverSocket(path);
    const server = makeServer(context);
    await listen(server, path);
    server.on("error", (err) => context.log.warn("Operator socket failed", { path, err }));
    return () => closeServer(server, context.clock);
  } catch (err) {
    context.log.warn("Cannot open the operator socket; commands such as status will not work", {
      path,
      err,
    });
    return nothing;
  }
}

function makeServer(context: OperatorSocketContext): Server {
  const server = createServer(
    limits,
    (request, response) => void serve(request, response, context),
  );
  server.maxConnections = maxConnections;
  server.maxRequestsPerSocket = 1;
  server.keepAliveTimeout = 1;
  const { timeoutMs = answerTimeoutMs } = context;
  server.on("connection", (socket) => {
    const cancel = context.clock.after(timeoutMs, () => socket.destroy());
    socket.on("close", cancel);
  });
  // The operator socket must not keep the process alive.
  server.unref();
  return server;
}

/**
 * Removes the socket of a daemon that was killed. Resolves with whether there was one. Rejects if a process is
 * listening on the socket or the file is not a socket, because then it is not ours to remove.
 */
export async function removeLeftoverSocket(path: string): Promise<boolean> {
  const status = path === "" ? undefined : lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) return false;
  if (!status.isSocket()) throw new Error("the file is not a socket");
  if (await isAnswering(path)) throw new Error("another process is listening on this socket");
  unlinkSync(path);
  return true;
}

function isAnswering(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT") resolve(false);
      else reject(error);
    });
  });
}

async function listen(server: Server, path: string): Promise<void> {
  // listen() binds the socket synchronously, so the umask applies to the socket. If chmod were used instead, the socket
  // would briefly be open to other users.
  const before = process.umask(0o177);
  server.listen(path);
  process.umask(before);
  await once(server, "listening");
}

async function serve(
  { method, url = "/" }: IncomingMessage,
  response: ServerResponse,
  context: OperatorSocketContext,
): Promise<void> {
  try {
    const answer = method === "GET" ? await answerTo(url, context) : failure(405, "only GET");
    await send(answer, response, context);
  } catch (err) {
    // The client disconnected, which is not an error.
    if (response.destroyed) return;
    context.log.warn("Cannot answer on the operator socket", { url, err });
    if (response.headersSent) response.destroy();
    else await send(failure(500, errorText(err)), response, context);
  }
}

async function send(
  answer: OperatorAnswer,
  response: ServerResponse,
  { clock }: OperatorSocketContext,
): Promise<void> {
  response.setHeader("Content-Type", "application/json");
  response.setHeader("Connection", "close");
  if (answer.kind === "object") {
    response.statusCode = answer.status;
    response.end(`${JSON.stringify(answer.object)}\n`);
    return;
  }
  const chunks = listText(answer.listKind, answer.rows, clock);
  // If the first chunk fails, the request can still be answered with an error.
  const first = await chunks.next();
  const whole = async function* (): AsyncGenerator<string> {
    yield first.value;
    yield* chunks;
  };
  await pipeline(whole, response);
}

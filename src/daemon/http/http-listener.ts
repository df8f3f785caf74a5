import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort, isLoopback, isWildcard, parseIpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { ListenAddress } from "../../config/config.ts";
import { keepFairly } from "./fair-connections.ts";

/** The parts of a request that our servers use. */
export interface HttpRequest {
  readonly method: string;
  /** Without the query: `/healthz`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly acceptsGzip: boolean;
  /** The Accept header; empty: none. */
  readonly accept: string;
  /** It came over loopback. */
  readonly isFromThisNode: boolean;
  /** The body's first kilobyte as text. */
  readonly readBody: () => Promise<string>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Answers every method alike, as upstream's servers do. */
export type HttpResponder = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

export interface HttpListenerOptions {
  /** What the server is called in messages: `metrics server`. */
  readonly name: string;
  readonly address: ListenAddress;
  /** Reject the start instead of retrying. */
  readonly isFailureFatal: boolean;
  /** The unspecified address means this family only; two listeners then share a port. Default: both. */
  readonly isSingleFamily?: boolean;
  readonly respond: HttpResponder;
  /** Bounds connections, together with other listeners; absent: 200 of its own. See {@link keepFairly}. */
  readonly boundConnections?: (socket: Socket) => void;
  /** Called with what is wrong when the port cannot be opened, and once a minute while that lasts. */
  readonly onFailure?: (reason: string) => void;
}

/** A port cannot be opened, and that is fatal. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

const retryMs = 5_000;
/** A port that stays busy is reported once a minute. */
const retriesBetweenReports = 12;
/** How long open requests may go on when the server stops. */
const closeGraceMs = 300;

/** Bounds on what strangers may hold on to: the health port is open to the network. */
const limits = {
  maxHeaderSize: 8_192,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 15_000,
  connectionsCheckingInterval: 2_000,
} as const;
const idleTimeoutMs = 30_000;
const maxConnections = 200;
/** Connections that wait to be accepted; net.core.somaxconn is the kernel's own limit. */
const backlog = 2_048;
/** No request needs a longer body than a number. */
const maxBodyBytes = 1_024;

/** A server with one address. A busy port is retried every 5 s; nothing else of the program waits for it. */
export class HttpListener {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #options: HttpListenerOptions;
  #server: Server | undefined;
  #failuresInARow = 0;
  #isStopped = false;
  #cancelRetry: () => void = () => {};

  constructor(
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
    options: HttpListenerOptions,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#options = options;
  }

  /** Resolves after the first attempt, good or not; rejects only where a failure is fatal. */
  async start(): Promise<void> {
    const error = await this.#attempt();
    if (error === undefined) return;
    if (!this.#options.isFailureFatal) return this.#retryLater(error);
    this.#options.onFailure?.(listenErrorText(error));
    throw this.#failure(error);
  }

  /** The port in use; undefined while there is none. */
  get port(): number | undefined {
    const address = this.#server?.address();
    return typeof address === "object" ? address?.port : undefined;
  }

  /** Stops within half a second: idle connections at once, busy ones after a moment. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    await closeServer(server, this.#clock);
  }

  /** Undefined: the server listens. */
  async #attempt(): Promise<Error | undefined> {
    const server = createServer(limits, (request, response) => void this.#serve(request, response));
    server.timeout = idleTimeoutMs;
    server.on("connection", this.#options.boundConnections ?? keepFairly(maxConnections));
    try {
      await listen(server, this.#options);
    } catch (error) {
      return error as Error;
    }
    // Without a listener a late error of the socket would end the process.
    server.on("error", (error) =>
      this.#log.error("HTTP server failed", { ...this.#who, err: error }),
    );
    this.#server = server;
    if (this.#failuresInARow > 0) this.#log.info("HTTP server is listening", this.#who);
    this.#failuresInARow = 0;
    return undefined;
  }

  #retryLater(error: Error): void {
    if (this.#failuresInARow % retriesBetweenReports === 0) {
      const reason = listenErrorText(error);
      const keys = { ...this.#who, retry: `${retryMs / 1000}s`, err: reason };
      this.#log.error("Cannot listen for HTTP", keys);
      this.#options.onFailure?.(reason);
    }
    this.#failuresInARow += 1;
    this.#cancelRetry = this.#clock.after(retryMs, () => void this.#retry());
  }

  async #retry(): Promise<void> {
    const error = await this.#attempt();
    if (this.#isStopped) this.#server?.close();
    else if (error !== undefined) this.#retryLater(error);
  }

  get #who(): { readonly server: string; readonly address: string } {
    const { name, address } = this.#options;
    return { server: name, address: hostPort(address.address, address.port) };
  }

  #failure(error: Error): Error {
    const { server, address } = this.#who;
    const message = `Cannot listen on ${address} for the ${server}: ${listenErrorText(error)}`;
    return new ListenError(message, { cause: error });
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const answer = await this.#options.respond(readRequest(incoming));
      const length = { "Content-Length": Buffer.byteLength(answer.body) };
      response.writeHead(answer.status, { ...answer.headers, ...length }).end(answer.body);
    } catch (error) {
      this.#log.error("HTTP request failed", { ...this.#who, err: error });
      if (!response.headersSent) response.writeHead(500);
      response.end();
    }
  }
}

/** Ends idle connections at once, busy ones after a moment. */
export async function closeServer(server: Server, clock: Clock): Promise<void> {
  const cancel = clock.after(closeGraceMs, () => server.closeAllConnections());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
  cancel();
}

function readRequest(incoming: IncomingMessage): HttpRequest {
  const { url = "/", method = "GET", headers, socket } = incoming;
  const [path = "/", query = ""] = url.split("?", 2);
  return {
    method,
    path,
    query: new URLSearchParams(query),
    acceptsGzip: /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\b)/.test(String(headers["accept-encoding"])),
    accept: headers.accept ?? "",
    isFromThisNode: isLoopbackText(socket.remoteAddress ?? ""),
    readBody: () => beginningOf(incoming),
  };
}

/** Says whether a socket's address is loopback; IPv4 may come in the form of a dual-stack socket. Pure. */
export function isLoopbackText(text: string): boolean {
  const address = parseIpAddress(text);
  return address !== undefined && isLoopback(address);
}

async function beginningOf(incoming: IncomingMessage): Promise<string> {
  let beginning = Buffer.alloc(0);
  // Read to its end: leaving it would cut the connection before the answer.
  for await (const chunk of incoming) {
    if (beginning.length < maxBodyBytes) beginning = Buffer.concat([beginning, chunk as Buffer]);
  }
  return beginning.subarray(0, maxBodyBytes).toString("utf8");
}

/** The unspecified address of either family opens one socket for both, where the host has IPv6. */
async function listen(
  server: Server,
  { address: { address, port }, isSingleFamily = false }: HttpListenerOptions,
): Promise<void> {
  if (isSingleFamily || !isWildcard(address)) {
    return await listenOn(server, address, port, isSingleFamily);
  }
  try {
    await listenOn(server, "::", port);
  } catch (error) {
    if (!hasNoIpv6(error)) throw error;
    await listenOn(server, "0.0.0.0", port);
  }
}

async function listenOn(
  server: Server,
  host: string,
  port: number,
  ipv6Only: boolean = false,
): Promise<void> {
  server.listen({ host, port, ipv6Only, backlog });
  await once(server, "listening");
}

function hasNoIpv6(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "EAFNOSUPPORT" || code === "EADDRNOTAVAIL";
}

function listenErrorText(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "EADDRINUSE")
    return "EADDRINUSE (another process is using this port: ss -ltnp on the node names it)";
  if (code === "EACCES") return "EACCES (a port below 1024 needs NET_BIND_SERVICE)";
  if (code === "EADDRNOTAVAIL") return "EADDRNOTAVAIL (this node has no such address)";
  return errorText(error);
}

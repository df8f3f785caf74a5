import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort, isLoopback, isWildcard, parseIpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { ListenAddress } from "../../config/config.ts";
import { keepFairly } from "./fair-connections.ts";
import { type CertificateFiles, followCertificate, readCertificate } from "./server-certificate.ts";

/** The request properties that our servers use. */
export interface HttpRequest {
  readonly method: string;
  /** The path without the query, such as `/healthz`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly acceptsGzip: boolean;
  /** The Accept header. Empty if there is none. */
  readonly accept: string;
  /** The Authorization header. Empty if there is none. */
  readonly authorization: string;
  /** Whether the client's address is a loopback address. */
  readonly isFromThisNode: boolean;
  /** Reads the first kilobyte of the body as text. */
  readonly readBody: () => Promise<string>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Computes the answer to a request. The servers accept any method, as kube-proxy's do. */
export type HttpResponder = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

export interface HttpListenerOptions {
  /** The server's name in messages, such as `metrics server`. */
  readonly name: string;
  readonly address: ListenAddress;
  /** If given, the server speaks TLS only. */
  readonly certificate?: CertificateFiles;
  /** If true, `start` rejects instead of retrying. */
  readonly isFailureFatal: boolean;
  /**
   * If true, a listener with a wildcard address accepts connections only in that address's family, so that two
   * listeners can share a port. By default it accepts both families.
   */
  readonly isSingleFamily?: boolean;
  readonly respond: HttpResponder;
  /**
   * Limits the number of connections to this listener, or to all listeners that share this function. By default, this
   * listener allows 200 connections. See {@link keepFairly}.
   */
  readonly boundConnections?: (socket: Socket) => void;
  /** Called with the reason when the port cannot be opened, and then once a minute until it can. */
  readonly onFailure?: (reason: string) => void;
}

/** Thrown if a port cannot be opened and the program must exit. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

const retryMs = 5_000;
/** A failure is reported once in this many retries, which is once a minute. */
const retriesBetweenReports = 12;
/** How long open requests may continue when the server stops. */
const closeGraceMs = 300;

/** Limits for untrusted clients: the health port is open to the network. */
const limits = {
  maxHeaderSize: 8_192,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 15_000,
  connectionsCheckingInterval: 2_000,
} as const;
const handshakeTimeout = 5_000;
const idleTimeoutMs = 30_000;
const maxConnections = 200;
/** Maximum number of connections waiting to be accepted. The kernel lowers it to net.core.somaxconn. */
const backlog = 2_048;
/** Maximum length of a stored request body. Only /debug/flags/v uses the body, which is a number. */
const maxBodyBytes = 1_024;

/** A server with one address. If the port is in use, retries every 5 s in the background. */
export class HttpListener {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #options: HttpListenerOptions;
  #server: Server | undefined;
  #failuresInARow = 0;
  #isStopped = false;
  #cancelRetry: () => void = () => {};
  #forgetCertificate: () => void = () => {};

  constructor(
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
    options: HttpListenerOptions,
  ) {
    this.#clock = clock;
    this.#log = log;
    this.#options = options;
  }

  /** Resolves after the first attempt, whether or not it succeeded. Rejects only if a failure is fatal. */
  async start(): Promise<void> {
    const error = await this.#attempt();
    if (error === undefined) return;
    if (!this.#options.isFailureFatal) return this.#retryLater(error);
    this.#options.onFailure?.(listenErrorText(error));
    throw this.#failure(error);
  }

  /** The port on which the server is listening. Undefined if it is not listening. */
  get port(): number | undefined {
    const address = this.#server?.address();
    return typeof address === "object" ? address?.port : undefined;
  }

  /** Stops within half a second. Closes idle connections immediately and busy ones after {@link closeGraceMs}. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    this.#forgetCertificate();
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    await closeServer(server, this.#clock);
  }

  /** Tries to listen. Resolves with the error, or with undefined if the server is listening. */
  async #attempt(): Promise<Error | undefined> {
    let server: Server;
    try {
      server = await this.#create();
      await listen(server, this.#options);
    } catch (error) {
      this.#forgetCertificate();
      return error as Error;
    }
    // Without an error listener, a later socket error would terminate the process.
    server.on("error", (error) =>
      this.#log.error("HTTP server failed", { ...this.#who, err: error }),
    );
    this.#server = server;
    if (this.#failuresInARow > 0) this.#log.info("HTTP server is listening", this.#who);
    this.#failuresInARow = 0;
    return undefined;
  }

  async #create(): Promise<Server> {
    const { certificate, boundConnections = keepFairly(maxConnections) } = this.#options;
    const serve = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#serve(request, response);
    let server: Server;
    if (certificate === undefined) {
      server = createServer(limits, serve);
    } else {
      const current = await readCertificate(certificate);
      const secure = createTlsServer({ ...limits, ...current, handshakeTimeout }, serve);
      const use = secure.setSecureContext.bind(secure);
      const dependencies = { clock: this.#clock, log: this.#log };
      this.#forgetCertificate = followCertificate(dependencies, certificate, { current, use });
      server = secure;
    }
    server.timeout = idleTimeoutMs;
    server.on("connection", boundConnections);
    return server;
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
    if (this.#isStopped) await this.stop();
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

/** Closes idle connections immediately and busy ones after {@link closeGraceMs}. */
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
    authorization: headers.authorization ?? "",
    isFromThisNode: isLoopbackText(socket.remoteAddress ?? ""),
    readBody: () => beginningOf(incoming),
  };
}

/**
 * Returns whether a socket's address is loopback. An IPv4 address may have the IPv4-mapped form of a dual-stack
 * socket. Pure.
 */
export function isLoopbackText(text: string): boolean {
  const address = parseIpAddress(text);
  return address !== undefined && isLoopback(address);
}

async function beginningOf(incoming: IncomingMessage): Promise<string> {
  let beginning = Buffer.alloc(0);
  // Read the body to its end. Otherwise the connection would be reset before the answer is sent.
  for await (const chunk of incoming) {
    if (beginning.length < maxBodyBytes) beginning = Buffer.concat([beginning, chunk as Buffer]);
  }
  return beginning.subarray(0, maxBodyBytes).toString("utf8");
}

/** A wildcard address of either family opens one socket for both families if the host has IPv6. */
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
    return "EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)";
  if (code === "EACCES") return "EACCES (a port below 1024 needs NET_BIND_SERVICE)";
  if (code === "EADDRNOTAVAIL") return "EADDRNOTAVAIL (this node does not have this address)";
  return errorText(error);
}

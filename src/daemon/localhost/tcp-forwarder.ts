import { createConnection, createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { ListenAddress } from "../../config/config.ts";
import { joinSockets } from "../../userspace/join-sockets.ts";

export interface TcpForwarderParts {
  readonly clock: Clock;
  readonly log: Logger;
}

export interface TcpForwarderOptions {
  /** For messages: the service port. */
  readonly service: string;
  readonly from: ListenAddress;
  readonly to: ListenAddress;
}

/** Only processes of this node connect; more than this at once is a mistake of one of them. */
const maxConnections = 1_000;
const retryMs = 30_000;

/** Accepts connections at one address and makes one to another for each. A port that is taken is retried. */
export class TcpForwarder {
  readonly #parts: TcpForwarderParts;
  readonly #options: TcpForwarderOptions;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #isStopped = false;
  #hasFailed = false;
  #cancelRetry: () => void = () => {};

  constructor(parts: TcpForwarderParts, options: TcpForwarderOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /** Resolves after the first attempt, good or not. */
  async start(): Promise<void> {
    const error = await this.#listen();
    if (error === undefined || this.#isStopped) return;
    const { clock, log } = this.#parts;
    const { service, from } = this.#options;
    if (!this.#hasFailed) {
      const keys = { service, address: hostPort(from.address, from.port), err: errorText(error) };
      log.error("Cannot listen on the loopback address for a node port, retrying", keys);
    }
    this.#hasFailed = true;
    this.#cancelRetry = clock.after(retryMs, () => void this.start());
  }

  /** Ends its connections too: nobody is there to forward them. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    for (const socket of this.#sockets) socket.resetAndDestroy();
    const server = this.#server;
    this.#server = undefined;
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  /** Undefined: it listens. */
  async #listen(): Promise<Error | undefined> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#forward(socket),
    );
    server.maxConnections = maxConnections;
    const { address: host, port } = this.#options.from;
    const error = await new Promise<Error | undefined>((resolve) => {
      server.on("error", resolve);
      server.listen({ host, port }, () => resolve(undefined));
    });
    if (error === undefined) this.#server = server;
    if (this.#isStopped) server.close();
    return error;
  }

  #forward(client: Socket): void {
    const { address: host, port } = this.#options.to;
    const target = createConnection({ host, port, allowHalfOpen: true, noDelay: true });
    for (const socket of [client, target]) {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    joinSockets(client, target);
  }
}

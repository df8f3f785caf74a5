import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { joinSockets } from "./join-sockets.ts";
import type { ListenAddress, Listener, ListenerContext, LocalPorts } from "./listener.ts";
import type { Backend } from "./service-listeners.ts";

/** Timeouts of consecutive attempts to connect to a backend. Each attempt uses the next backend. */
const dialTimeoutsMs = [250, 500, 1_000, 2_000] as const;
/** Idle time after which SO_KEEPALIVE probes start to detect a vanished peer. */
const keepAliveMs = 60_000;
const backlog = 1_024;

/** Accepts TCP connections and joins each with a connection to a backend. */
export class TcpListener implements Listener {
  readonly #parts: ListenerContext;
  readonly #address: ListenAddress;
  readonly #server: Server;
  readonly #clients = new Set<Socket>();

  constructor(parts: ListenerContext, address: ListenAddress) {
    this.#parts = parts;
    this.#address = address;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      background(this.#serve(client), parts.log, "serving a connection");
    });
  }

  get openCount(): number {
    return this.#clients.size;
  }

  async open(): Promise<LocalPorts> {
    const { host, port: wanted } = this.#address;
    this.#server.listen({ host, port: wanted, backlog, ipv6Only: true });
    await once(this.#server, "listening");
    this.#server.on("error", (error) => this.#noteError(error));
    const { port } = this.#server.address() as AddressInfo;
    return { port, portOnLoopback: port };
  }

  /** Resolves immediately. Open connections continue. */
  async close(): Promise<void> {
    this.#server.close();
  }

  keepTo(): void {}

  cut(): void {
    for (const client of this.#clients) client.resetAndDestroy();
  }

  async #serve(client: Socket): Promise<void> {
    // Ignore client errors before the client is joined with a backend.
    client.on("error", () => client.destroy());
    const { connections } = this.#parts;
    if (!connections.take()) return void client.resetAndDestroy();
    this.#clients.add(client);
    client.on("close", () => this.#clients.delete(client));
    await this.#join(client);
    connections.release();
  }

  /** Resolves when the client's socket and any backend socket are closed. */
  async #join(client: Socket): Promise<void> {
    const closed = [closing(client)];
    client.pause();
    const backend = await this.#connect(client);
    if (backend === undefined) {
      client.resetAndDestroy();
    } else {
      closed.push(closing(backend));
      for (const socket of [client, backend]) socket.setKeepAlive(true, keepAliveMs);
      joinSockets(client, backend);
    }
    await Promise.all(closed);
  }

  /** Connects to a backend. Resolves to undefined if no backend can be reached or the client has disconnected. */
  async #connect(client: Socket): Promise<Socket | undefined> {
    const { balancer, clock, log } = this.#parts;
    const from = client.remoteAddress ?? "";
    for (const [index, timeoutMs] of dialTimeoutsMs.entries()) {
      const backend = balancer.next(from, clock.monotonicMs(), index > 0);
      if (backend === undefined || client.destroyed) return undefined;
      try {
        return await dial(backend, { clock, timeoutMs });
      } catch (error) {
        const keys = { backend: backend.key, attempt: index + 1, err: errorText(error) };
        log.verbose(2, "Cannot connect to endpoint", keys);
      }
    }
    log.warn("Cannot connect to any endpoint, closing the connection", { client: from });
    return undefined;
  }

  #noteError(error: Error): void {
    this.#parts.log.error("Cannot accept connections", { err: errorText(error) });
  }
}

function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

/** Connects to a backend. Rejects if this fails or takes longer than `timeoutMs`. */
async function dial(
  { address, port, key }: Backend,
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
): Promise<Socket> {
  const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
  const cancel = clock.after(timeoutMs, () => {
    socket.destroy(new Error(`Cannot connect to ${key}: no answer within ${timeoutMs} ms`));
  });
  try {
    await once(socket, "connect");
    return socket;
  } finally {
    cancel();
  }
}

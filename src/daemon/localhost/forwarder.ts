import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { LoopbackNodePort } from "../../plan/loopback-node-ports.ts";
import { joinSockets } from "../../userspace/join-sockets.ts";
import type { ConnectionQuota } from "../../userspace/listener.ts";
import { ServiceQuota } from "../../userspace/service-quota.ts";
import { UdpListener } from "../../userspace/udp-listener.ts";

export interface ForwarderParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** A UDP client that is quiet for so long may get another endpoint. */
  readonly udpIdleMs: () => number;
}

/** Sockets that are open. */
interface Forwarding {
  /** Ends its connections too: nobody is there to forward them. */
  close(): Promise<void>;
}

const retryMs = 30_000;

/** Forwards what comes to one address to another one. A port that is taken is retried. */
export class Forwarder {
  readonly #parts: ForwarderParts;
  readonly #nodePort: LoopbackNodePort;
  #forwarding: Forwarding | undefined;
  #isStopped = false;
  #hasFailed = false;
  #cancelRetry: () => void = () => {};

  constructor(parts: ForwarderParts, nodePort: LoopbackNodePort) {
    this.#parts = parts;
    this.#nodePort = nodePort;
  }

  /** Resolves after the first attempt, good or not. */
  async start(): Promise<void> {
    try {
      this.#forwarding = await this.#open();
    } catch (error) {
      this.#retry(error);
    }
    if (this.#isStopped) await this.#close();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry();
    await this.#close();
  }

  #open(): Promise<Forwarding> {
    const { protocol } = this.#nodePort;
    return protocol === "TCP"
      ? openTcpForwarding(this.#nodePort)
      : openUdpForwarding(this.#parts, this.#nodePort);
  }

  async #close(): Promise<void> {
    const forwarding = this.#forwarding;
    this.#forwarding = undefined;
    await forwarding?.close();
  }

  #retry(error: unknown): void {
    if (this.#isStopped) return;
    const { clock, log } = this.#parts;
    const { service, protocol, from } = this.#nodePort;
    if (!this.#hasFailed) {
      const address = hostPort(from.address, from.port);
      const keys = { service, protocol, address, err: errorText(error) };
      log.error("Cannot listen on the loopback address for a node port, retrying", keys);
    }
    this.#hasFailed = true;
    this.#cancelRetry = clock.after(retryMs, () => void this.start());
  }
}

/** Only processes of this node connect; more than this at once is a mistake of one of them. */
const maxConnections = 1_000;

/** Accepts connections at one address and makes one to another for each. Rejects where it cannot listen. */
async function openTcpForwarding({ from, to }: LoopbackNodePort): Promise<Forwarding> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const { address: host, port } = to;
    const target = createConnection({ host, port, allowHalfOpen: true, noDelay: true });
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    }
    joinSockets(client, target);
  });
  server.maxConnections = maxConnections;
  server.listen({ host: from.address, port: from.port });
  await once(server, "listening");
  // It goes on listening, whatever becomes of one connection.
  server.on("error", () => {});
  return {
    close: () => {
      for (const socket of sockets) socket.resetAndDestroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** Likewise for UDP clients. */
const maxClients = 4_096;

function connectionsOf(service: string): ConnectionQuota {
  const quota = new ServiceQuota({ total: maxClients, perService: maxClients });
  return { take: () => quota.take(service), release: () => quota.release(service) };
}

/**
 * Takes datagrams at one address and sends them to another, from a socket of its own for each client, so that IPVS keeps
 * a client at its endpoint. Rejects where it cannot listen.
 */
async function openUdpForwarding(
  { clock, log, udpIdleMs }: ForwarderParts,
  { service, from, to }: LoopbackNodePort,
): Promise<Forwarding> {
  const target = { key: hostPort(to.address, to.port), ...to };
  const listener = new UdpListener(
    {
      ...{ clock, log: log.with({ service }), udpTimeoutMs: udpIdleMs() },
      balancer: { next: () => target },
      connections: connectionsOf(service),
    },
    { host: from.address, port: from.port },
  );
  try {
    await listener.open();
  } catch (error) {
    await listener.close();
    throw error;
  }
  return listener;
}

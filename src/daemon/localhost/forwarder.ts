import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { LoopbackNodePort } from "../../plan/loopback-node-ports.ts";
import type { Listener } from "../../userspace/listener.ts";
import { ServiceQuota } from "../../userspace/service-quota.ts";
import { TcpListener } from "../../userspace/tcp-listener.ts";
import { UdpListener } from "../../userspace/udp-listener.ts";

export interface ForwarderOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** How long a UDP client must be idle before it may get another endpoint. */
  readonly udpIdleMs: () => number;
}

const retryMs = 30_000;

/** Forwards connections and datagrams from one address to another. If the port is in use, retries to open it. */
export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #nodePort: LoopbackNodePort;
  #listener: Listener | undefined;
  #isStopped = false;
  #hasFailed = false;
  #cancelRetry: () => void = () => {};

  constructor(options: ForwarderOptions, nodePort: LoopbackNodePort) {
    this.#options = options;
    this.#nodePort = nodePort;
  }

  /** Resolves after the first attempt, whether or not it succeeded. */
  async start(): Promise<void> {
    try {
      this.#listener = await openListener(this.#options, this.#nodePort);
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

  /** Closes the listener and its connections, which this process can no longer forward. */
  async #close(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.cut();
    await listener?.close();
  }

  #retry(error: unknown): void {
    if (this.#isStopped) return;
    const { clock, log } = this.#options;
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

/**
 * Maximum number of simultaneous TCP connections or UDP clients. Only local processes connect, so more than this
 * indicates a bug in one of them.
 */
const maxConnections = { TCP: 1_000, UDP: 4_096 } as const;

/**
 * Opens a listener that uses a separate socket to the target for each client, so that IPVS keeps a UDP client on the
 * same endpoint. Rejects if the port cannot be opened.
 */
async function openListener(
  { clock, log, udpIdleMs }: ForwarderOptions,
  { service, protocol, from, to }: LoopbackNodePort,
): Promise<Listener> {
  const target = { key: hostPort(to.address, to.port), ...to };
  const total = maxConnections[protocol];
  const quota = new ServiceQuota({ total, perService: total });
  const ListenerOf = protocol === "TCP" ? TcpListener : UdpListener;
  const listener = new ListenerOf(
    {
      ...{ clock, log: log.with({ service }), udpTimeoutMs: udpIdleMs() },
      balancer: { next: () => target },
      connections: { take: () => quota.take(service), release: () => quota.release(service) },
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

import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { hostPort } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { LoopbackNodePort } from "../../plan/loopback-node-ports.ts";
import { openTcpForwarding } from "./tcp-forwarding.ts";
import { openUdpForwarding } from "./udp-forwarding.ts";

export interface ForwarderParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** A UDP client that is quiet for so long may get another endpoint. */
  readonly udpIdleMs: () => number;
}

/** Sockets that are open. */
export interface Forwarding {
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

import type { RemoteInfo } from "node:dgram";
import { isIPv6 } from "node:net";
import { errorText } from "../base/error-text.ts";
import type { ListenAddress, Listener, ListenerParts, LocalPorts } from "./listener.ts";
import { UdpFlow } from "./udp-flow.ts";
import { UdpSocket } from "./udp-socket.ts";

/** So many clients have a socket each; the oldest one makes room for a new one. */
const mostFlows = 4_096;

/** Takes datagrams, and gives each client a socket of its own to one backend until it is quiet for long. */
export class UdpListener implements Listener {
  readonly #parts: ListenerParts;
  readonly #socket: UdpSocket;
  /** Answers from the loopback address: a socket of all addresses answers a process of this node from another one. */
  readonly #onLoopback: UdpSocket | undefined;
  /** By `port address` of the client, in the order in which they came. */
  readonly #flows = new Map<string, UdpFlow>();
  #hasReportedLimit = false;

  constructor(parts: ListenerParts, address: ListenAddress) {
    this.#parts = parts;
    this.#socket = this.#socketAt(address);
    const host = isIPv6(address.host) ? "::1" : "127.0.0.1";
    this.#onLoopback =
      address.isRedirected === true ? this.#socketAt({ host, port: 0 }) : undefined;
  }

  get openCount(): number {
    return this.#flows.size;
  }

  async open(): Promise<LocalPorts> {
    const port = await this.#socket.open();
    if (this.#onLoopback === undefined) return { port, portOnLoopback: port };
    try {
      return { port, portOnLoopback: await this.#onLoopback.open() };
    } catch (error) {
      await this.#socket.close();
      throw error;
    }
  }

  /** There is no end that a client would wait for: flows end with the listener. */
  async close(): Promise<void> {
    this.cut();
    await this.#socket.close();
    await this.#onLoopback?.close();
  }

  keepTo(serving: ReadonlySet<string>): void {
    for (const flow of this.#flows.values()) if (!serving.has(flow.backendKey)) flow.close();
  }

  cut(): void {
    for (const flow of this.#flows.values()) flow.close();
    this.#flows.clear();
  }

  #socketAt(address: ListenAddress): UdpSocket {
    const socket: UdpSocket = new UdpSocket(address, {
      onDatagram: (data, from) => this.#pass(data, from, socket),
      onError: (error) =>
        this.#parts.log.error("Cannot receive datagrams", { err: errorText(error) }),
    });
    return socket;
  }

  /** Answers go the way that the first datagram came. */
  #pass(data: Uint8Array, from: RemoteInfo, socket: UdpSocket): void {
    const key = `${from.port} ${from.address}`;
    const flow = this.#flows.get(key) ?? this.#begin(key, from, socket);
    flow?.send(data);
  }

  #begin(key: string, from: RemoteInfo, socket: UdpSocket): UdpFlow | undefined {
    const { balancer, clock, udpTimeoutMs } = this.#parts;
    const backend = balancer.next(from.address, clock.monotonicMs());
    if (backend === undefined) return undefined;
    if (this.#flows.size >= mostFlows) this.#dropOldest();
    const flow = new UdpFlow(backend, {
      clock,
      idleMs: udpTimeoutMs,
      onAnswer: (answer) => socket.answer(answer, from),
      onEnd: () => {
        if (this.#flows.get(key) === flow) this.#flows.delete(key);
      },
    });
    this.#flows.set(key, flow);
    return flow;
  }

  #dropOldest(): void {
    const [oldest] = this.#flows.values();
    oldest?.close();
    if (this.#hasReportedLimit) return;
    this.#hasReportedLimit = true;
    this.#parts.log.warn("Too many UDP clients, closing the oldest", { limit: mostFlows });
  }
}

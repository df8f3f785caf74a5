import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { isIPv6 } from "node:net";
import { errorText } from "../base/error-text.ts";
import type { ListenAddress, Listener, ListenerParts } from "./listener.ts";
import { UdpFlow } from "./udp-flow.ts";

/** So many clients have a socket each; the oldest one makes room for a new one. */
const mostFlows = 4_096;
/** What is queued beyond this is dropped, as a full socket buffer would do. */
const mostQueuedBytes = 1_048_576;

/** Takes datagrams, and gives each client a socket of its own to one backend until it is quiet for long. */
export class UdpListener implements Listener {
  readonly #parts: ListenerParts;
  readonly #address: ListenAddress;
  readonly #socket: Socket;
  /** By `port address` of the client, in the order in which they came. */
  readonly #flows = new Map<string, UdpFlow>();
  #hasReportedLimit = false;

  constructor(parts: ListenerParts, address: ListenAddress) {
    this.#parts = parts;
    this.#address = address;
    const type = isIPv6(address.host) ? "udp6" : "udp4";
    this.#socket = createSocket({ type, ipv6Only: type === "udp6" });
    this.#socket.on("message", (data, from) => this.#pass(data, from));
  }

  get openCount(): number {
    return this.#flows.size;
  }

  open(): Promise<number> {
    const { host: address, port } = this.#address;
    return new Promise((resolve, reject) => {
      this.#socket.once("error", reject);
      this.#socket.bind({ address, port, exclusive: true }, () => {
        this.#socket.off("error", reject);
        this.#socket.on("error", (error) => this.#noteError(error));
        resolve(this.#socket.address().port);
      });
    });
  }

  /** There is no end that a client would wait for: flows end with the listener. */
  close(): Promise<void> {
    this.cut();
    return new Promise((resolve) => {
      this.#socket.close(() => resolve());
    });
  }

  cut(): void {
    for (const flow of this.#flows.values()) flow.close();
    this.#flows.clear();
  }

  #pass(data: Uint8Array, from: RemoteInfo): void {
    const key = `${from.port} ${from.address}`;
    const flow = this.#flows.get(key) ?? this.#begin(key, from);
    flow?.send(data);
  }

  #begin(key: string, from: RemoteInfo): UdpFlow | undefined {
    const { balancer, clock, udpTimeoutMs } = this.#parts;
    const backend = balancer.next(from.address, clock.monotonicMs());
    if (backend === undefined) return undefined;
    if (this.#flows.size >= mostFlows) this.#dropOldest();
    const flow = new UdpFlow(backend, {
      clock,
      idleMs: udpTimeoutMs,
      onAnswer: (data) => this.#answer(data, from),
      onEnd: () => {
        if (this.#flows.get(key) === flow) this.#flows.delete(key);
      },
    });
    this.#flows.set(key, flow);
    return flow;
  }

  #answer(data: Uint8Array, { port, address }: RemoteInfo): void {
    if (this.#socket.getSendQueueSize() > mostQueuedBytes) return;
    this.#socket.send(data, port, address, () => {});
  }

  #dropOldest(): void {
    const [oldest] = this.#flows.values();
    oldest?.close();
    if (this.#hasReportedLimit) return;
    this.#hasReportedLimit = true;
    this.#parts.log.warn("Too many UDP clients, closing the oldest", { limit: mostFlows });
  }

  #noteError(error: Error): void {
    this.#parts.log.error("Cannot receive datagrams", { err: errorText(error) });
  }
}

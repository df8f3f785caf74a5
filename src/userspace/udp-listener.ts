import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { isIPv6 } from "node:net";
import { errorText } from "../base/error-text.ts";
import type { HostPort } from "../base/ip.ts";
import type { ListenAddress, Listener, ListenerContext, LocalPorts } from "./listener.ts";
import { UdpFlow } from "./udp-flow.ts";

/** Replies beyond this queue size are dropped, as with a full socket buffer. */
const mostQueuedBytes = 1_048_576;

/** Receives datagrams. Each client has a separate socket to one backend until the client is idle. */
export class UdpListener implements Listener {
  readonly #parts: ListenerContext;
  readonly #address: ListenAddress;
  readonly #sockets: Socket[] = [];
  /** Flows by the client's `port address`. The flow that has been idle longest is first. */
  readonly #flows = new Map<string, UdpFlow>();

  constructor(parts: ListenerContext, address: ListenAddress) {
    this.#parts = parts;
    this.#address = address;
  }

  get openCount(): number {
    return this.#flows.size;
  }

  async open(): Promise<LocalPorts> {
    const { host, isRedirected } = this.#address;
    try {
      const port = await this.#bind(this.#address);
      if (isRedirected !== true) return { port, portOnLoopback: port };
      // A separate socket is needed, because a wildcard socket would reply to a local process from a non-loopback
      // address.
      const loopback = { host: isIPv6(host) ? "::1" : "127.0.0.1", port: 0 };
      return { port, portOnLoopback: await this.#bind(loopback) };
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** Closes the sockets and all flows. UDP flows never end explicitly, so it would not help to wait for their end. */
  async close(): Promise<void> {
    this.cut();
    for (const socket of this.#sockets.splice(0)) {
      await new Promise<void>((resolve) => socket.close(resolve));
    }
  }

  keepTo(serving: ReadonlySet<HostPort>): void {
    for (const flow of this.#flows.values()) if (!serving.has(flow.backendKey)) flow.close();
  }

  cut(): void {
    for (const flow of this.#flows.values()) flow.close();
    this.#flows.clear();
  }

  /** Binds a socket, and resolves with its port. */
  async #bind({ host: address, port }: ListenAddress): Promise<number> {
    const type = isIPv6(address) ? "udp6" : "udp4";
    const socket = createSocket({ type, ipv6Only: type === "udp6" });
    this.#sockets.push(socket);
    socket.on("message", (data, from) => this.#pass(data, from, socket));
    socket.bind({ address, port, exclusive: true });
    await once(socket, "listening");
    socket.on("error", (error) => {
      this.#parts.log.error("Cannot receive datagrams", { err: errorText(error) });
    });
    return socket.address().port;
  }

  /** Forwards a datagram. Replies are sent through the socket that received the flow's first datagram. */
  #pass(data: Uint8Array, from: RemoteInfo, socket: Socket): void {
    const key = `${from.port} ${from.address}`;
    const flow = this.#flows.get(key) ?? this.#begin(key, from, socket);
    if (flow === undefined) return;
    this.#noteUse(key, flow);
    flow.send(data);
  }

  #begin(key: string, from: RemoteInfo, socket: Socket): UdpFlow | undefined {
    const { balancer, clock, connections, udpTimeoutMs } = this.#parts;
    const backend = balancer.next(from.address, clock.monotonicMs());
    if (backend === undefined) return undefined;
    if (!connections.take()) {
      const [idlest] = this.#flows.values();
      idlest?.close();
      // The other listeners have used up the quota.
      if (!connections.take()) return undefined;
    }
    const flow = new UdpFlow(backend, {
      clock,
      idleMs: udpTimeoutMs,
      onAnswer: (answer) => {
        this.#noteUse(key, flow);
        if (socket.getSendQueueSize() > mostQueuedBytes) return;
        socket.send(answer, from.port, from.address, () => {});
      },
      onEnd: () => {
        connections.release();
        if (this.#flows.get(key) === flow) this.#flows.delete(key);
      },
    });
    this.#flows.set(key, flow);
    return flow;
  }

  /** Moves the flow to the end, because it is now the least idle. */
  #noteUse(key: string, flow: UdpFlow): void {
    if (this.#flows.delete(key)) this.#flows.set(key, flow);
  }
}

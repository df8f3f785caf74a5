import { createSocket, type Socket } from "node:dgram";
import type { Clock } from "../base/clock.ts";
import { familyOf, type HostPort } from "../base/ip.ts";
import type { Backend } from "./service-listeners.ts";

export interface UdpFlowContext {
  readonly clock: Clock;
  /** The flow ends after this time without a datagram in either direction. */
  readonly idleMs: number;
  readonly onAnswer: (data: Uint8Array) => void;
  /** Called once when the flow ends for any reason. */
  readonly onEnd: () => void;
}

/** Maximum number of datagrams that are queued until the socket is connected. Further datagrams are dropped. */
const mostWaiting = 64;
const mostQueuedBytes = 1_048_576;

/** Forwards one client's datagrams to one backend, and the replies. */
export class UdpFlow {
  readonly backendKey: HostPort;
  readonly #parts: UdpFlowContext;
  readonly #socket: Socket;
  readonly #waiting: Uint8Array[] = [];
  #isConnected = false;
  #isEnded = false;
  #usedAtMs: number;
  #cancelCheck: () => void = () => {};

  constructor({ key, address, port }: Backend, parts: UdpFlowContext) {
    this.backendKey = key;
    this.#parts = parts;
    this.#usedAtMs = parts.clock.monotonicMs();
    this.#socket = createSocket(familyOf(address) === "IPv6" ? "udp6" : "udp4");
    this.#socket.on("message", (data) => this.#answered(data));
    // The backend's port is closed (ECONNREFUSED). The client's next datagram is sent to a different backend.
    this.#socket.on("error", () => this.close());
    this.#socket.connect(port, address, () => this.#connected());
    this.#checkAfter(parts.idleMs);
  }

  send(data: Uint8Array): void {
    this.#usedAtMs = this.#parts.clock.monotonicMs();
    if (this.#isConnected) this.#sendNow(data);
    else if (this.#waiting.length < mostWaiting) this.#waiting.push(data);
  }

  close(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#cancelCheck();
    this.#socket.close();
    this.#parts.onEnd();
  }

  #connected(): void {
    if (this.#isEnded) return;
    this.#isConnected = true;
    for (const data of this.#waiting.splice(0)) this.#sendNow(data);
  }

  #sendNow(data: Uint8Array): void {
    if (this.#isEnded || this.#socket.getSendQueueSize() > mostQueuedBytes) return;
    this.#socket.send(data, (error) => {
      if (error !== null && error !== undefined) this.close();
    });
  }

  #answered(data: Uint8Array): void {
    this.#usedAtMs = this.#parts.clock.monotonicMs();
    this.#parts.onAnswer(data);
  }

  /** Starts the idle timer, which serves many datagrams: if it fires early, it runs for the remaining time. */
  #checkAfter(delayMs: number): void {
    const { clock, idleMs } = this.#parts;
    this.#cancelCheck = clock.after(delayMs, () => {
      const leftMs = this.#usedAtMs + idleMs - clock.monotonicMs();
      if (leftMs <= 0) this.close();
      else this.#checkAfter(leftMs);
    });
  }
}

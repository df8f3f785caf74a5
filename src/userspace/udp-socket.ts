import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { isIPv6 } from "node:net";
import type { ListenAddress } from "./listener.ts";

/** What is queued beyond this is dropped, as a full socket buffer would do. */
const mostQueuedBytes = 1_048_576;

export interface UdpSocketParts {
  readonly onDatagram: (data: Uint8Array, from: RemoteInfo) => void;
  readonly onError: (error: Error) => void;
}

/** One socket that takes datagrams. */
export class UdpSocket {
  readonly #socket: Socket;
  readonly #address: ListenAddress;
  readonly #parts: UdpSocketParts;

  constructor(address: ListenAddress, parts: UdpSocketParts) {
    this.#address = address;
    this.#parts = parts;
    const type = isIPv6(address.host) ? "udp6" : "udp4";
    this.#socket = createSocket({ type, ipv6Only: type === "udp6" });
    this.#socket.on("message", parts.onDatagram);
  }

  /** The port that it has. */
  open(): Promise<number> {
    const { host: address, port } = this.#address;
    return new Promise((resolve, reject) => {
      this.#socket.once("error", reject);
      this.#socket.bind({ address, port, exclusive: true }, () => {
        this.#socket.off("error", reject);
        this.#socket.on("error", this.#parts.onError);
        resolve(this.#socket.address().port);
      });
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.close(() => resolve());
    });
  }

  /** Dropped where too much is waiting. */
  answer(data: Uint8Array, { port, address }: RemoteInfo): void {
    if (this.#socket.getSendQueueSize() > mostQueuedBytes) return;
    this.#socket.send(data, port, address, () => {});
  }
}

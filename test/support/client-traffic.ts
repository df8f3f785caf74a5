/**
 * Traffic from the client of `node-network.ts` to the pods of `pod-traffic.ts`. The sockets belong to the namespace
 * `client`. This process enters that namespace only to open them, and is otherwise in the namespace `node`.
 */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { enterNetworkNamespace } from "./netns/network-namespace.ts";
import { patienceMs } from "./patience.ts";

/** More than the longest answer to one line. */
const keptLength = 10_000;

/** Opens sockets in a namespace other than `node`. No other code may open sockets at the same time. */
export async function openIn<T>(namespace: string, open: () => Promise<T>): Promise<T> {
  enterNetworkNamespace(namespace);
  try {
    return await open();
  } finally {
    enterNetworkNamespace("node");
  }
}

/** A TCP connection from the client. */
export class Connection {
  readonly #socket: Socket;
  /** The end of what was received. */
  #text = "";
  #firstLine: string | undefined;
  #byteCount = 0;
  #onData = (): void => {};
  /** Error code that ended the connection, or `end` for a graceful close. Undefined while it is open. */
  ending: string | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (bytes: Buffer) => {
      this.#byteCount += bytes.length;
      const text = this.#text + bytes.toString("latin1");
      if (this.#firstLine === undefined && text.includes("\n"))
        [this.#firstLine] = text.split("\n");
      this.#text = text.slice(-keptLength);
      this.#onData();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.ending ??= error.code ?? "error";
    });
    socket.on("close", () => {
      this.ending ??= "end";
      this.#onData();
    });
  }

  /** Connects (from `localPort` if given) and sends `request`; see `pod-traffic.ts`. */
  static async open(
    host: string,
    port: number,
    request: string,
    localPort?: number,
  ): Promise<Connection> {
    const socket = await openIn("client", async () => {
      const opened = connect({ host, port, ...(localPort !== undefined && { localPort }) });
      await once(opened, "connect");
      return opened;
    });
    socket.write(`${request}\n`);
    socket.unref();
    return new Connection(socket);
  }

  get byteCount(): number {
    return this.#byteCount;
  }

  /** The pod's name, from its first line. */
  async name(): Promise<string> {
    await this.#until(() => this.#firstLine !== undefined);
    return this.#firstLine ?? "";
  }

  /** Sends one line and waits for the answer. Rejects if none arrives. */
  async ping(text: string): Promise<void> {
    this.#socket.write(`ping ${text}\n`);
    await this.#until(() => this.#text.includes(` ping ${text}\n`));
  }

  async receives(byteCount: number): Promise<void> {
    await this.#until(() => this.#byteCount >= byteCount);
  }

  /** Resolves with the reason when the connection has ended. */
  async ends(): Promise<string> {
    await this.#until(() => this.ending !== undefined);
    return this.ending ?? "";
  }

  write(text: string): void {
    this.#socket.write(text);
  }

  /**
   * Resets the connection. IPVS keeps a reset connection for ten seconds, but a gracefully closed one for two minutes.
   */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  async #until(condition: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      reject(
        new Error(`Timed out after ${patienceMs} ms; ${this.#byteCount} bytes, ${this.ending}`),
      );
    }, patienceMs);
    this.#onData = () => {
      if (condition()) resolve();
      else if (this.ending !== undefined)
        reject(new Error(`The connection is closed: ${this.ending}`));
    };
    this.#onData();
    await promise.finally(() => clearTimeout(timer));
  }
}

/** Opens a connection and returns the name of the pod that answers. */
export async function askName(address: string, port: number): Promise<string> {
  const connection = await Connection.open(address, port, "name");
  return connection.name();
}

/** A UDP client that keeps its source port. */
export class Datagrams {
  readonly #socket: UdpSocket;
  #count = 0;
  readonly #answers = new Map<number, string>();
  #onAnswer = (): void => {};

  private constructor(socket: UdpSocket) {
    this.#socket = socket;
    // ICMP "port unreachable" arrives as an error.
    socket.on("error", () => {});
    socket.on("message", (text) => {
      const [name = "", number = ""] = text.toString().split(" ");
      this.#answers.set(Number(number), name);
      this.#onAnswer();
    });
  }

  static open(sourcePort: number): Promise<Datagrams> {
    return openIn("client", () => Datagrams.openHere(sourcePort));
  }

  /** Opens the socket in the current namespace, as a client on the node itself would. */
  static async openHere(sourcePort: number): Promise<Datagrams> {
    const socket = createSocket("udp4");
    socket.bind(sourcePort);
    await once(socket, "listening");
    socket.unref();
    return new Datagrams(socket);
  }

  /** Sends one datagram and returns the name of the pod that answers, or "nobody" after `timeoutMs`. */
  async ask(address: string, port: number, timeoutMs: number = patienceMs): Promise<string> {
    const number = ++this.#count;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#onAnswer = () => {
      const name = this.#answers.get(number);
      if (name !== undefined) resolve(name);
    };
    const timer = setTimeout(() => resolve("nobody"), timeoutMs);
    this.#socket.send(String(number), port, address, () => {});
    return promise.finally(() => clearTimeout(timer));
  }

  close(): void {
    this.#socket.close();
  }
}

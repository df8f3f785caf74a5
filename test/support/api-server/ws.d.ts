/** Types of the package `ws`, for the code in this folder. */
declare module "ws" {
  import type { EventEmitter } from "node:events";
  import type { Agent, IncomingMessage } from "node:http";
  import type { Duplex } from "node:stream";
  import type { checkServerIdentity } from "node:tls";

  export interface ClientOptions {
    readonly headers?: Readonly<Record<string, string | readonly string[]>>;
    readonly agent?: Agent;
    readonly handshakeTimeout?: number;
    readonly checkServerIdentity?: typeof checkServerIdentity;
  }

  export class WebSocket extends EventEmitter {
    constructor(url: string, protocols: readonly string[], options?: ClientOptions);
    send(data: Uint8Array): void;
    close(): void;
    terminate(): void;
  }

  export class WebSocketServer {
    constructor(options: {
      readonly noServer: true;
      readonly handleProtocols?: (protocols: ReadonlySet<string>) => string | false;
    });
    handleUpgrade(
      request: IncomingMessage,
      socket: Duplex,
      head: Buffer,
      callback: (socket: WebSocket) => void,
    ): void;
  }
}

import type { ChildProcess } from "node:child_process";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";

const execProtocol = "v4.channel.k8s.io";
/** The first byte of each message. */
const stream = { out: 1, err: 2, status: 3 } as const;

export interface ExecRequest {
  readonly namespace: string;
  readonly pod: string;
  readonly command: readonly string[];
}

/** Starts a request's command with pipes. Undefined if the pod does not exist. */
export type StartCommand = (request: ExecRequest) => ChildProcess | undefined;

const pathForm = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/exec$/;

/** pods/exec over WebSockets, as an API server and a kubelet implement it: v4.channel.k8s.io. */
export class PodExec {
  readonly #server = new WebSocketServer({ noServer: true, handleProtocols: () => execProtocol });

  answer(request: IncomingMessage, socket: Duplex, head: Buffer, start: StartCommand): void {
    const url = new URL(request.url ?? "/", "http://server");
    const [, namespace = "", pod = ""] = pathForm.exec(url.pathname) ?? [];
    const child = start({ namespace, pod, command: url.searchParams.getAll("command") });
    if (child === undefined) {
      socket.end("HTTP/1.1 404 Not Found\r\n\r\n");
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (opened) => connect(opened, child));
  }
}

function connect(socket: WebSocket, child: ChildProcess): void {
  const send = (index: number, bytes: Uint8Array): void => {
    socket.send(Buffer.concat([Buffer.from([index]), bytes]));
  };
  child.stdout?.on("data", (bytes: Buffer) => send(stream.out, bytes));
  child.stderr?.on("data", (bytes: Buffer) => send(stream.err, bytes));
  child.on("close", (code) => {
    send(stream.status, Buffer.from(JSON.stringify(statusOf(code))));
    socket.close();
  });
  socket.on("message", (message: Buffer) => void child.stdin?.write(message.subarray(1)));
  socket.on("close", () => child.kill("SIGKILL"));
}

function statusOf(code: number | null): unknown {
  if (code === 0) return { kind: "Status", status: "Success" };
  const cause = { reason: "ExitCode", message: String(code ?? 137) };
  const message = `command terminated with exit code ${cause.message}`;
  return {
    ...{ kind: "Status", status: "Failure", reason: "NonZeroExitCode", message },
    details: { causes: [cause] },
  };
}

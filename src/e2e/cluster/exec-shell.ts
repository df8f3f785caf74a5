import type { IncomingMessage } from "node:http";
import { checkServerIdentity } from "node:tls";
import { WebSocket } from "ws";
import type { Credentials } from "../../api/cluster/credentials.ts";
import { errorText } from "../../base/error-text.ts";
import { type CommandResult, ExecStreams, execProtocol, stream } from "./exec-streams.ts";

/** Where a command runs: a container of a pod. */
export interface PodPlace {
  readonly namespace: string;
  readonly pod: string;
  /** Absent: the pod has one. */
  readonly container?: string;
}

const handshakeMs = 30_000;
/** A command that takes longer hangs. */
const commandMs = 180_000;

/**
 * Commands in pods through the API server's pods/exec, over a web socket each. A command that runs and fails is a result;
 * where none can be run, it rejects.
 */
export class ExecShell {
  readonly #credentials: Credentials;

  constructor(credentials: Credentials) {
    this.#credentials = credentials;
  }

  async run(place: PodPlace, command: readonly string[]): Promise<CommandResult> {
    const running = new Exec(await this.#open(place, command, false), place);
    return await running.ended;
  }

  async start(place: PodPlace, command: readonly string[]): Promise<Exec> {
    return new Exec(await this.#open(place, command, true), place);
  }

  async #open(
    { namespace, pod, container }: PodPlace,
    command: readonly string[],
    hasInput: boolean,
  ): Promise<WebSocket> {
    const { headers, agent } = await this.#credentials.current();
    const query = new URLSearchParams({
      ...(container === undefined ? {} : { container }),
      stdin: String(hasInput),
      stdout: "true",
      stderr: "true",
    });
    for (const word of command) query.append("command", word);
    const path = `/api/v1/namespaces/${namespace}/pods/${pod}/exec?${query}`;
    const { server, certifiedName } = this.#credentials;
    return new WebSocket(`${server.replace(/^http/, "ws")}${path}`, [execProtocol], {
      headers,
      agent,
      handshakeTimeout: handshakeMs,
      checkServerIdentity: (_host, certificate) => checkServerIdentity(certifiedName, certificate),
    });
  }
}

/** One command on its web socket. */
export class Exec {
  readonly ended: Promise<CommandResult>;
  readonly #socket: WebSocket;
  readonly #streams = new ExecStreams();
  #onOutput = (): void => {};

  constructor(socket: WebSocket, { namespace, pod }: PodPlace) {
    this.#socket = socket;
    const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
    const fail = (why: string): void => {
      reject(new Error(`Cannot run a command in pod ${namespace}/${pod}: ${why}`));
      socket.terminate();
    };
    const timer = setTimeout(() => fail(`it did not end in ${commandMs / 1000} s`), commandMs);
    socket.on("message", (message: Buffer) => this.#note(message));
    socket.on("unexpected-response", (_request: unknown, response: IncomingMessage) => {
      fail(`the API server answers ${response.statusCode}${adviceFor(response.statusCode)}`);
    });
    socket.on("error", (error: unknown) => fail(errorText(error)));
    socket.on("close", () => {
      try {
        const { result } = this.#streams;
        if (result === undefined) fail("the connection ended before the command");
        else resolve(result);
      } catch (error) {
        fail(errorText(error));
      }
    });
    this.ended = promise.finally(() => clearTimeout(timer));
    // Whoever waits for the first line alone hears of it there.
    this.ended.catch(() => {});
  }

  /** Its first line of output. Rejects where it ends without one. */
  async firstLine(): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#onOutput = () => {
      const end = this.#streams.out.indexOf("\n");
      if (end >= 0) resolve(this.#streams.out.slice(0, end));
    };
    this.#onOutput();
    this.ended.then(({ err }) => reject(new Error(err.trim() || "it printed nothing")), reject);
    return await promise;
  }

  /** Sends it a byte on its standard input, which ends it, and resolves with what it printed in all. */
  async stop(): Promise<CommandResult> {
    this.#socket.send(Buffer.from([stream.in, "\n".charCodeAt(0)]));
    return await this.ended;
  }

  #note(message: Buffer): void {
    this.#streams.add(message);
    this.#onOutput();
  }
}

function adviceFor(status: number | undefined): string {
  return status === 403 ? "; grant get and create on pods/exec, as deploy/kustomize/e2e does" : "";
}

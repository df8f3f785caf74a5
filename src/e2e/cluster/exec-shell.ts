import type { RequestOptions } from "node:https";
import { PassThrough, Writable } from "node:stream";
import { checkServerIdentity } from "node:tls";
import { type Cluster, Exec, KubeConfig, type V1Status } from "@kubernetes/client-node";
import type { Credentials } from "../../api/cluster/credentials.ts";

/** A container of a pod. */
export interface PodPlace {
  readonly namespace: string;
  readonly pod: string;
  /** Undefined if the pod has only one container. */
  readonly container?: string;
}

export interface CommandResult {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

/** Returns the output of a command. Throws if the command failed. */
export function outputOf(result: CommandResult, who: string): string {
  if (result.exitCode === 0) return result.out;
  throw failureOf(result, who);
}

export function failureOf({ exitCode, out, err }: CommandResult, who: string): Error {
  const words = (err.trim() || out.trim()).split("\n").at(-1) ?? "";
  return new Error(`The command on ${who} exited with code ${exitCode}: ${words}`);
}

const handshakeMs = 30_000;
/** A command that takes longer is considered hung. */
const commandMs = 180_000;

/** Runs commands in pods through pods/exec. Rejects if a command cannot run, but not if it fails. */
export class ExecShell {
  readonly #exec: Exec;

  constructor(credentials: Credentials) {
    this.#exec = new Exec(new OurCredentials(credentials));
  }

  async run(place: PodPlace, command: readonly string[]): Promise<CommandResult> {
    return await new RunningCommand(this.#exec, place, command).ended;
  }

  /** Starts a command with a standard input. */
  start(place: PodPlace, command: readonly string[]): RunningCommand {
    return new RunningCommand(this.#exec, place, command, new PassThrough());
  }
}

export class RunningCommand {
  readonly ended: Promise<CommandResult>;
  readonly #input: PassThrough | undefined;
  readonly #out = new CollectedText();
  readonly #err = new CollectedText();

  constructor(exec: Exec, place: PodPlace, command: readonly string[], input?: PassThrough) {
    this.#input = input;
    const { namespace, pod } = place;
    const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
    const fail = (why: string): void =>
      reject(new Error(`Cannot run a command in pod ${namespace}/${pod}: ${why}`));
    const timer = setTimeout(
      () => fail(`the command did not finish within ${commandMs / 1000} s`),
      commandMs,
    );
    const onStatus = (status: V1Status): void => {
      const exitCode = exitCodeOf(status);
      if (exitCode === undefined) fail(status.message ?? "the API server gives no reason");
      else resolve({ exitCode, out: this.#out.text, err: this.#err.text });
    };
    this.ended = promise.finally(() => clearTimeout(timer));
    // Prevents an unhandled rejection if the caller awaits only the first line, which rejects with the same error.
    this.ended.catch(() => {});
    exec
      .exec(
        namespace,
        pod,
        place.container ?? "",
        [...command],
        this.#out,
        this.#err,
        input ?? null,
        false,
        onStatus,
      )
      .then(
        (socket) => {
          socket.on("close", () => fail("the connection closed before the command finished"));
          this.ended.catch(() => socket.close());
        },
        (error: unknown) => fail(handshakeProblem(error)),
      );
  }

  /** Resolves with the first line of output. Rejects if the command ends without one. */
  async firstLine(): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#out.onText = (text) => {
      const end = text.indexOf("\n");
      if (end >= 0) resolve(text.slice(0, end));
    };
    this.#out.onText(this.#out.text);
    this.ended.then(
      ({ err }) => reject(new Error(err.trim() || "the command printed nothing")),
      reject,
    );
    return await promise;
  }

  /** Ends the command by sending a line to standard input, and resolves with the whole output. */
  async stop(): Promise<CommandResult> {
    this.#input?.write("\n");
    return await this.ended;
  }
}

/** Uses our credentials and our certificate check for the library's WebSockets. */
class OurCredentials extends KubeConfig {
  readonly #credentials: Credentials;

  constructor(credentials: Credentials) {
    super();
    this.#credentials = credentials;
  }

  override getCurrentCluster(): Cluster {
    return { name: "cluster", server: this.#credentials.server, skipTLSVerify: false };
  }

  override async applyToHTTPSOptions(options: RequestOptions): Promise<void> {
    const { headers, agent } = await this.#credentials.current();
    const { certifiedName } = this.#credentials;
    Object.assign(options, {
      headers,
      agent,
      handshakeTimeout: handshakeMs,
      checkServerIdentity: ((_host, certificate) =>
        checkServerIdentity(certifiedName, certificate)) satisfies typeof checkServerIdentity,
    });
  }
}

class CollectedText extends Writable {
  readonly #chunks: Buffer[] = [];
  onText: (text: string) => void = () => {};

  get text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#chunks.push(chunk);
    this.onText(this.text);
    done();
  }
}

/** Returns a command's exit code. Undefined if the command could not run. */
function exitCodeOf({ status, details }: V1Status): number | undefined {
  if (status === "Success") return 0;
  const cause = details?.causes?.find(({ reason }) => reason === "ExitCode");
  return cause === undefined ? undefined : Number(cause.message);
}

/** Formats the library's rejection, which is a WebSocket event. */
function handshakeProblem(error: unknown): string {
  const { message: text = "" } = error as { readonly message?: string };
  const [, status] = /Unexpected server response: (\d+)/.exec(text) ?? [];
  if (status === undefined) return text;
  const advice =
    status === "403" ? "; grant get and create on pods/exec, as deploy/kustomize/e2e does" : "";
  return `the API server answers ${status}${advice}`;
}

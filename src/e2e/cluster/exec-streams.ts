/** The streams of pods/exec: a byte in front of each message says which one it belongs to (v4.channel.k8s.io). Pure. */
import { pathOf } from "../../api/decode/fields.ts";
import { parseJson } from "../../base/parse-json.ts";

export const execProtocol = "v4.channel.k8s.io";
export const stream = { in: 0, out: 1, err: 2, status: 3 } as const;

export interface CommandResult {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

/** What arrived on each stream so far. */
export class ExecStreams {
  readonly #chunks: Buffer[][] = [];

  add(message: Uint8Array): void {
    const [index = stream.status] = message;
    const chunks = this.#chunks[index] ?? [];
    chunks.push(Buffer.from(message.subarray(1)));
    this.#chunks[index] = chunks;
  }

  get out(): string {
    return this.#textOf(stream.out);
  }

  /** Undefined: the connection ended without an exit status. Throws where the command could not be run. */
  get result(): CommandResult | undefined {
    const status = this.#textOf(stream.status);
    if (status === "") return undefined;
    const exitCode = exitCodeOf(parseJson(status));
    return { exitCode, out: this.out, err: this.#textOf(stream.err) };
  }

  #textOf(index: number): string {
    return Buffer.concat(this.#chunks[index] ?? []).toString("utf8");
  }
}

/** Of the Status object at the end. */
function exitCodeOf(status: unknown): number {
  if (pathOf(status, "status") === "Success") return 0;
  const causes = pathOf(status, "details", "causes");
  for (const cause of Array.isArray(causes) ? causes : []) {
    if (pathOf(cause, "reason") === "ExitCode") return Number(pathOf(cause, "message"));
  }
  throw new Error(String(pathOf(status, "message") ?? "the API server gives no reason"));
}

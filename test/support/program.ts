/** Runs the built program, `dist/kube-ipvs`, in its own process, as an operator does. */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { join } from "node:path";
import { failuresIn } from "./failure-lines.ts";
import { patienceMs } from "./patience.ts";

const path: string = join(import.meta.dirname, "../../dist/kube-ipvs");

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running or exited program. */
export class Program {
  readonly #child: ChildProcess;
  readonly #ending: Promise<Ending>;
  #output = "";
  #onOutput = (): void => {};

  /** `command` precedes the program, for example `unshare` or `setpriv`. `program` replaces dist/kube-ipvs. */
  constructor(
    args: readonly string[],
    command: readonly string[] = [],
    { program = path, ...options }: SpawnOptions & { readonly program?: string } = {},
  ) {
    const [file = program, ...rest] = [...command, program, ...args];
    this.#child = spawn(file, rest, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#output += chunk.toString();
        this.#onOutput();
      });
    }
    this.#ending = new Promise((resolve) =>
      this.#child.on("close", (code, signal) => resolve({ code, signal })),
    );
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Output so far, from both streams. */
  get output(): string {
    return this.#output;
  }

  get lastLine(): string {
    return this.#output.trimEnd().split("\n").at(-1) ?? "";
  }

  /** Why the program exited, according to its last lines. */
  get failures(): readonly string[] {
    return failuresIn(this.#output);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves when the output matches. Fails if the program exits or the timeout expires. */
  async prints(pattern: RegExp, limitMs: number = patienceMs): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const fail = (why: string): void => reject(new Error(`${why}: ${pattern}\n${this.#output}`));
    this.#onOutput = () => {
      if (pattern.test(this.#output)) resolve();
    };
    this.#onOutput();
    const timer = setTimeout(() => fail("Timed out before it was printed"), limitMs);
    void this.#ending.then(() => fail("Ended without printing"));
    await promise.finally(() => clearTimeout(timer));
  }

  /** Waits for the program to exit. If it does not, kills it and fails the test. */
  async ends(limitMs: number = patienceMs): Promise<Ending> {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), limitMs);
    const ending = await this.#ending;
    clearTimeout(timer);
    return ending;
  }
}

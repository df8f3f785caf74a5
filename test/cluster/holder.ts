/** A program that keeps connections open during a test step: hold.ts, or `kube-ipvs-e2e hold` in a pod. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { HeldConnection } from "../../src/e2e/pod/conversation.ts";

export class Holder {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #count: number;

  private constructor(argv: readonly string[], count: number, signal: AbortSignal) {
    const [program = "", ...args] = argv;
    this.#child = spawn(program, args, {
      stdio: ["pipe", "pipe", "inherit"],
      signal,
      killSignal: "SIGKILL",
    });
    // If the program fails, its output ends, and #take throws.
    this.#child.on("error", () => {});
    this.#child.stdin.on("error", () => {});
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
    this.#count = count;
  }

  /** Resolves when the program has `count` connections, and rejects if it exits earlier. `signal` kills it. */
  static async open(argv: readonly string[], count: number, signal: AbortSignal): Promise<Holder> {
    const holder = new Holder(argv, count, signal);
    await holder.#take(() => {});
    return holder;
  }

  /** Closes all connections and returns their results. */
  async end(): Promise<readonly HeldConnection[]> {
    this.#child.stdin.end();
    const results: HeldConnection[] = [];
    await this.#take((line) => void results.push(JSON.parse(line) as HeldConnection));
    return results;
  }

  async #take(onLine: (line: string) => void): Promise<void> {
    for (let taken = 0; taken < this.#count; taken += 1) {
      const { done, value } = await this.#lines.next();
      if (done)
        throw new Error(`the program holding ${this.#count} connections exited after ${taken}`);
      onLine(value);
    }
  }
}

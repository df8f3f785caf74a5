/** Uses a small program for SCTP, because Node.js has no SCTP sockets. Its processes are in the thread's namespace. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { Exclusive } from "../../src/base/exclusive.ts";
import { type Listener, type Outcome, type Probe, parseAnswer } from "./probe.ts";

const program = join(import.meta.dirname, "../../build/test/sctp-station");

/** Resolves when all listeners are open. The process ends with this thread. */
export async function answerSctp(listeners: readonly Listener[], name: string): Promise<void> {
  const [first] = listeners;
  if (first === undefined) return;
  const addresses = listeners.map(({ address }) => address);
  const station = spawn(program, ["answer", name, String(first.port), ...addresses], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [chunk] = await Promise.race([once(station.stdout, "data"), once(station, "exit")]);
  if (String(chunk) !== "ready\n") throw new Error(`sctp-station at ${name} is not listening`);
}

/** The process that connects from this place. A process for each association would cost more than the association. */
class Asker {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;
  readonly #exclusive = new Exclusive();

  constructor() {
    this.#process = spawn(program, ["ask"], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  ask({ address, port, timeoutMs, source = "-" }: Probe): Promise<string> {
    return this.#exclusive.run(async () => {
      this.#process.stdin.write(`${address} ${port} ${timeoutMs} ${source}\n`);
      const { value, done } = await this.#lines.next();
      if (done === true) throw new Error("sctp-station exited");
      return value;
    });
  }
}

let asker: Asker | undefined;

/** Opens one association and returns its outcome. */
export async function askSctp(probe: Probe): Promise<Outcome> {
  asker ??= new Asker();
  const line = await asker.ask(probe);
  const answer = line.startsWith("{") ? parseAnswer(`${line}\n`) : undefined;
  if (answer !== undefined) return { kind: "answer", answer };
  if (line === "silence") return { kind: "silence" };
  return line === "ECONNREFUSED" ? { kind: "refused" } : { kind: "failure", code: line };
}

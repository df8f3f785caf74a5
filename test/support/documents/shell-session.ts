/** One shell for many commands, because starting a shell from this large process is slow in a lab kernel. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { Readable, Writable } from "node:stream";

export class ShellSession {
  readonly #shell: ChildProcessByStdio<Writable, Readable, null>;
  #printed = "";
  #onPrinted = (): void => {};

  constructor(folder: string, path: string) {
    const env = { ...process.env, PATH: path };
    this.#shell = spawn("bash", [], { cwd: folder, env, stdio: ["pipe", "pipe", "inherit"] });
    this.#shell.stdout.on("data", (chunk: Buffer) => {
      this.#printed += chunk.toString();
      this.#onPrinted();
    });
    this.#shell.stdin.write("exec 2>&1\n");
  }

  /** Runs a command and returns its output, including errors. */
  async run(command: string): Promise<string> {
    const mark = `\n${randomUUID()}\n`;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#printed = "";
    this.#onPrinted = () => {
      const end = this.#printed.indexOf(mark);
      if (end >= 0) resolve(this.#printed.slice(0, end));
    };
    this.#shell.stdin.write(`${command}\nprintf '%s' '${mark}'\n`);
    return await promise;
  }

  end(): void {
    this.#shell.stdin.end();
  }
}

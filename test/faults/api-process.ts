/** The test API server in a separate process, over TLS, with its control port. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Fault } from "../support/api-server/faults.ts";
import type { ApiObject } from "../support/objects.ts";
import { ask } from "./ask.ts";
import type { ServerFiles } from "./certificates.ts";

const script = join(import.meta.dirname, "../support/api-server/main.ts");

export interface ApiStart {
  readonly folder: string;
  readonly port: number;
  readonly files: ServerFiles;
  readonly objects: Iterable<ApiObject>;
  /** Derived from the clock if absent, so that a restarted server does not start at 1 again. */
  readonly firstRevision?: number;
}

export class ApiProcess {
  readonly #child: ChildProcess;
  readonly #control: string;

  private constructor(child: ChildProcess, control: string) {
    this.#child = child;
    this.#control = control;
  }

  /** Resolves when the server is listening. */
  static async start({
    folder,
    port,
    files,
    objects,
    firstRevision,
  }: ApiStart): Promise<ApiProcess> {
    const objectsFile = join(folder, "objects.json");
    writeFileSync(objectsFile, JSON.stringify([...objects]));
    const revision = firstRevision === undefined ? [] : [`--first-revision=${firstRevision}`];
    const tls = [`--tls-certificate=${files.certificate}`, `--tls-key=${files.key}`];
    const argv = [script, `--port=${port}`, `--objects=${objectsFile}`, ...tls, ...revision];
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
    killAtExit(child);
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const { control } = JSON.parse(line.toString()) as { readonly control: string };
    return new ApiProcess(child, control);
  }

  /** Sends a command to the control port. */
  async command(name: string, body?: unknown): Promise<unknown> {
    const text = body === undefined ? "" : JSON.stringify(body);
    const answer = await ask(`${this.#control}/${name}`, text);
    if (answer.status !== 200) throw new Error(`${name}: ${answer.text}`);
    return JSON.parse(answer.text);
  }

  async fault(...faults: readonly Fault[]): Promise<void> {
    await this.command("fault", faults);
  }

  /** Stops immediately. */
  async stop(): Promise<void> {
    const closed = once(this.#child, "close");
    this.#child.kill("SIGKILL");
    await closed;
  }
}

function killAtExit(child: ChildProcess): void {
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("close", () => process.off("exit", kill));
}

/** Traffic from the client through the node: an echo pod behind a ClusterIP and a NodePort. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";

export interface Figures {
  /** Connections that stand now. */
  readonly long: number;
  /** Since the last figures: those that broke, new ones, and new ones that failed. */
  readonly broken: number;
  readonly short: number;
  readonly failed: number;
  readonly reasons: Readonly<Record<string, number>>;
}

const clientScript = join(import.meta.dirname, "traffic-client.ts");
const echoScript = join(import.meta.dirname, "../support/long-connections.ts");

export class Traffic {
  readonly #echo: ChildProcess;
  readonly #client: ChildProcess;
  readonly #lines: Interface;

  /** `pod`: the namespace of the pod that answers; `targets`: `ADDRESS:PORT` as the client dials them. */
  constructor(pod: string, targets: readonly string[]) {
    this.#echo = inNamespace(pod, [echoScript, "echo", "8080"]);
    this.#client = inNamespace("client", [clientScript, ...targets]);
    if (this.#client.stdout === null) throw new Error("The client has no standard output");
    this.#lines = createInterface(this.#client.stdout);
  }

  /** Figures since the last call, when everything that was on its way has its end. */
  async take(): Promise<Figures> {
    const answer = once(this.#lines, "line");
    this.#client.stdin?.write("figures\n");
    const [line] = (await answer) as [string];
    return JSON.parse(line) as Figures;
  }

  /** New connections in place of all that there are; none of those counts. */
  reopen(): void {
    this.#client.stdin?.write("reopen\n");
  }

  async stop(): Promise<void> {
    for (const child of [this.#client, this.#echo]) {
      const closed = once(child, "close");
      child.kill("SIGKILL");
      await closed;
    }
  }
}

function inNamespace(name: string, argv: readonly string[]): ChildProcess {
  const child = spawn("ip", ["netns", "exec", name, process.execPath, ...argv], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  return child;
}

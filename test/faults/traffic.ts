/** Traffic from the client through the node to an echo pod, over a ClusterIP and a NodePort. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";

export interface Figures {
  /** Number of open connections. */
  readonly long: number;
  /** Since the last figures: broken connections, new ones, and failed new ones. */
  readonly broken: number;
  readonly short: number;
  readonly failed: number;
  /** Since the last figures: attempts to connect to targets that must reject the client, and how many succeeded. */
  readonly tried: number;
  readonly admitted: number;
  readonly reasons: Readonly<Record<string, number>>;
}

const clientScript = join(import.meta.dirname, "traffic-client.ts");
const echoScript = join(import.meta.dirname, "../support/long-connections.ts");

export class Traffic {
  readonly #echo: ChildProcess;
  readonly #client: ChildProcess;
  readonly #lines: Interface;

  /** `pod` is the namespace of the answering pod. `targets` are those of `traffic-client.ts`. */
  constructor(pod: string, targets: readonly string[], longPerTarget = 10) {
    this.#echo = inNamespace(pod, [echoScript, "echo", "8080"]);
    this.#client = inNamespace("client", [clientScript, String(longPerTarget), ...targets]);
    if (this.#client.stdout === null) throw new Error("The client has no standard output");
    this.#lines = createInterface(this.#client.stdout);
  }

  /** Waits until all connections in progress have ended, and returns the figures since the last call. */
  async take(): Promise<Figures> {
    const answer = once(this.#lines, "line");
    this.#client.stdin?.write("figures\n");
    const [line] = (await answer) as [string];
    return JSON.parse(line) as Figures;
  }

  /** Replaces all connections with new ones, without counting the old ones. */
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

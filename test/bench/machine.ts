/**
 * The machine under test: a lab kernel pinned to one processor, and this process on another one, connected by a tap
 * device. The API server runs in this process, outside the measured processor. The agent reads data inside the lab.
 */
import { createSocket, type Socket } from "node:dgram";
import { request } from "node:http";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { runInLab } from "../lab/lab.ts";
import { findLabKernel, type IptablesVariant } from "../lab/lab-kernel.ts";
import { shell } from "../support/netns/network-namespace.ts";
import type { AgentRequests, ExecResult } from "./agent-requests.ts";

const tap = "bench0";
const outsideAddress = "10.200.0.1";
const insideAddress = "10.200.0.2";
const agentPort = 7000;
const observerPort = 7001;
const bootTimeoutMs = 60_000;
const project: string = join(import.meta.dirname, "../..");

export interface MachineOptions {
  /** Memory size in the format of `mem=`. */
  readonly memory?: string;
  readonly timeoutSeconds?: number;
  /** Defaults to LAB_IPTABLES. */
  readonly iptables?: IptablesVariant;
}

/** The processors of the API server and of the lab. If the machine has only one processor, both use it. */
export const outsideCpu = 0;
const labCpu: number = cpus().length > 1 ? 1 : 0;

export class Machine {
  readonly #abort = new AbortController();
  readonly #ended: Promise<unknown>;
  #console = "";
  #answers: Socket | undefined;
  #question = 0;
  readonly #waiting = new Map<string, (count: number) => void>();

  private constructor(options: MachineOptions) {
    // Always uses the lab kernel, so that results from different machines are comparable.
    const kernel = findLabKernel(process.env["LAB_KERNEL"]);
    if (kernel === undefined) {
      throw new Error(
        "The bench needs the lab kernel: apt-get install user-mode-linux (amd64 only)",
      );
    }
    const note = (chunk: Buffer): void => {
      this.#console = (this.#console + chunk.toString()).slice(-4_096);
    };
    const agent = join(import.meta.dirname, "agent.ts");
    this.#ended = runInLab(
      { kind: "lab-kernel", kernel },
      [process.execPath, agent, `${insideAddress}/24`, String(agentPort)],
      {
        cpu: labCpu,
        memory: options.memory ?? "3G",
        timeoutSeconds: options.timeoutSeconds ?? 900,
        ipvs: "present",
        tap,
        ...(options.iptables === undefined ? {} : { iptables: options.iptables }),
      },
      { stdout: note, stderr: note },
      this.#abort.signal,
    );
  }

  /**
   * Boots the lab. Both ends of the link are in this process's own network namespace. Frames contain only one segment,
   * because the lab kernel drops others ("Incoming GSO frames and GRO disabled").
   */
  static async boot(options: MachineOptions = {}): Promise<Machine> {
    shell(`
      ip link set lo up
      ip tuntap add ${tap} mode tap
      ip addr add ${outsideAddress}/24 dev ${tap}
      ip link set ${tap} gso_max_segs 1 up
    `);
    const machine = new Machine(options);
    await machine.#awaitAgent();
    await machine.#startObserver();
    return machine;
  }

  /** The API server's address for the daemon inside. */
  get outside(): string {
    return outsideAddress;
  }

  /** Sends a request to the agent. */
  ask<Name extends keyof AgentRequests>(
    name: Name,
    body: AgentRequests[Name]["body"],
  ): Promise<AgentRequests[Name]["answer"]> {
    return post(`http://${insideAddress}:${agentPort}/${name}`, body) as Promise<
      AgentRequests[Name]["answer"]
    >;
  }

  /** Runs a command, and throws if it fails. */
  async run(
    argv: readonly string[],
    more: Partial<AgentRequests["exec"]["body"]> = {},
  ): Promise<ExecResult> {
    const result = await this.ask("exec", { argv, ...more });
    if (result.status !== 0)
      throw new Error(`${argv.join(" ")}: ${result.status}\n${result.stderr}`);
    return result;
  }

  script(text: string, more: Partial<AgentRequests["exec"]["body"]> = {}): Promise<ExecResult> {
    return this.run(["sh", "-ec", text], more);
  }

  /** Resolves when this virtual server has `count` real servers with a non-zero weight. */
  async hasServers(address: string, port: number, count: number): Promise<void> {
    const found = await this.#observe(`servers ${address} ${port} ${count}`);
    if (found !== count)
      throw new Error(`${address}:${port} has ${found} real servers, not ${count}`);
  }

  /** Resolves when /proc/net/ip_vs has at least `count` lines without the header. */
  async hasLines(count: number): Promise<void> {
    const found = await this.#observe(`lines ${count}`);
    if (found < count) throw new Error(`/proc/net/ip_vs has ${found} lines of ${count}`);
  }

  /** Resolves with the number of entries in legacy iptables' IPv4 nat table when it reaches `least`. */
  async hasEntries(least: number): Promise<number> {
    const found = await this.#observe(`entries ${least}`);
    if (found < least) throw new Error(`The nat table has ${found} entries of ${least}`);
    return found;
  }

  /** Resolves with the number of entries in the nat table when it is no longer `than`. */
  async hasOtherEntries(than: number): Promise<number> {
    const found = await this.#observe(`other-entries ${than}`);
    if (found === than) throw new Error(`The nat table still has ${found} entries`);
    return found;
  }

  async powerOff(): Promise<void> {
    this.#answers?.close();
    await this.ask("powerOff", {}).catch(() => this.#abort.abort());
    await this.#ended;
    shell(`ip link del ${tap}`);
  }

  async #awaitAgent(): Promise<void> {
    const deadlineMs = performance.now() + bootTimeoutMs;
    for (;;) {
      const answer = await Promise.race([
        this.ask("forkCount", {}).catch(() => undefined),
        pause(1_000),
        this.#ended.then((result) => {
          throw new Error(`The lab exited: ${JSON.stringify(result)}\n${this.#console}`);
        }),
      ]);
      if (typeof answer === "number") return;
      if (performance.now() > deadlineMs)
        throw new Error(`The agent did not start:\n${this.#console}`);
      await pause(50);
    }
  }

  async #startObserver(): Promise<void> {
    const argv = [join(project, "build/bench/observe"), String(observerPort)];
    const { pid } = await this.ask("start", { argv });
    const wanted = { pid, text: "observing", timeoutMs: 10_000 };
    if (!(await this.ask("waitForOutput", wanted)).isThere) {
      throw new Error(`The observer is not running: ${await this.ask("output", { pid })}`);
    }
    this.#answers = createSocket("udp4", (message) => {
      const [tag = "", count] = message.toString().split(" ");
      this.#waiting.get(tag)?.(Number(count));
      this.#waiting.delete(tag);
    });
    await new Promise<void>((resolve) => this.#answers?.bind(0, resolve));
  }

  #observe(question: string): Promise<number> {
    this.#question += 1;
    const tag = `q${this.#question}`;
    const answer = new Promise<number>((resolve) => this.#waiting.set(tag, resolve));
    this.#answers?.send(`${tag} ${question}`, observerPort, insideAddress);
    return answer;
  }
}

function post(url: string, body: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(text === "" ? undefined : JSON.parse(text));
        else reject(new Error(text));
      });
    });
    sent.on("error", reject);
    sent.end(JSON.stringify(body));
  });
}

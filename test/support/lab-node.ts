/** A node in the lab with pods, manifests and the built program. This process is in the node's namespace. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { silentLogger } from "../../src/base/log.ts";
import { type OpenKernel, openKernel } from "../../src/kernel/open-kernel.ts";
import type { ObservedRealServer } from "../../src/state/real-server.ts";
import type { VirtualServerId } from "../../src/state/virtual-server.ts";
import { enterNetworkNamespace, shell } from "./netns/network-namespace.ts";
import { buildNodeNetwork, ipv6Of, type Pod } from "./node-network.ts";
import type { ApiObject } from "./objects.ts";
import { patienceMs } from "./patience.ts";
import { Program } from "./program.ts";
import { labRules } from "./rules-writer.ts";

const baseFlags = [
  "--hostname-override=node-1",
  "--cluster-cidr=10.244.0.0/16",
  "--ipvs-min-sync-period=0s",
  // Only the kernel's first network namespace can set this limit.
  "--conntrack-max-per-core=0",
  "-v=3",
];

export class LabNode {
  readonly #folder = mkdtempSync(join(tmpdir(), "kube-ipvs-lab-"));
  readonly #pods: readonly Pod[];
  readonly #children: ChildProcess[] = [];
  readonly #kernel: OpenKernel;
  #program: Program | undefined;

  private constructor(pods: readonly Pod[], kernel: OpenKernel) {
    this.#pods = pods;
    this.#kernel = kernel;
  }

  /** `buildNetwork` gives the pods their namespaces, and the node the name `node`. */
  static async build(
    pods: readonly Pod[],
    buildNetwork: () => void = () => buildNodeNetwork(pods),
  ): Promise<LabNode> {
    buildNetwork();
    enterNetworkNamespace("node");
    const kernel = await openKernel({ log: silentLogger, rules: labRules });
    const node = new LabNode(pods, kernel);
    for (const pod of pods) await node.startPod(pod);
    return node;
  }

  async startPod({ name }: Pod): Promise<void> {
    const script = join(import.meta.dirname, "pod-traffic.ts");
    const child = spawn("ip", ["netns", "exec", name, process.execPath, script, name], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.push(child);
    await once(child.stdout, "data");
  }

  get program(): Program {
    if (this.#program === undefined) throw new Error("The program is not running");
    return this.#program;
  }

  /** The flags for every start. */
  get flags(): readonly string[] {
    return [...baseFlags, `--manifests=${this.#folder}`];
  }

  /** Starts the program and waits for its first sync. */
  async start(
    flags: readonly string[] = [],
    command: readonly string[] = [],
    limitMs?: number,
  ): Promise<void> {
    this.#program = new Program([...this.flags, ...flags], command);
    await this.#program.prints(/SyncProxyRules complete/, limitMs);
  }

  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#program?.kill(signal);
    await this.#program?.ends();
  }

  /** Replaces all objects with these, in one step. */
  apply(...objects: readonly ApiObject[]): void {
    const path = join(this.#folder, "objects.yaml");
    const lines = objects.map((object) => `---\n${JSON.stringify(object)}\n`);
    // A file without a single byte would keep the last objects.
    writeFileSync(`${path}.new`, `${lines.join("")}---\n`);
    renameSync(`${path}.new`, path);
  }

  async realServers(server: VirtualServerId): Promise<readonly ObservedRealServer[]> {
    const [servers = []] = await this.#kernel.ipvs.listRealServers([server]);
    return servers;
  }

  /** The pods behind a virtual server with their weights: `pod-1 0, pod-2 1`. */
  async weights(server: VirtualServerId): Promise<string> {
    const names = new Map(
      this.#pods.flatMap((pod) =>
        [pod.address, ipv6Of(pod)].map((one) => [one, pod.name] as const),
      ),
    );
    return (await this.realServers(server))
      .map((server) => `${names.get(server.address) ?? server.address} ${server.weight}`)
      .toSorted()
      .join(", ");
  }

  /** Waits for these weights, and resolves with the number of milliseconds. */
  async hasWeights(
    server: VirtualServerId,
    wanted: string,
    timeoutMs: number = patienceMs,
  ): Promise<number> {
    const beganMs = performance.now();
    await until(
      async () => (await this.weights(server)) === wanted,
      timeoutMs,
      async () => {
        return `${wanted} is wanted, not ${await this.weights(server)}\n${this.program.output}`;
      },
    );
    return performance.now() - beganMs;
  }

  async metric(name: string): Promise<number> {
    const text = await (await fetch("http://127.0.0.1:10249/metrics")).text();
    const value = text
      .split("\n")
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length + 1);
    if (value === undefined) throw new Error(`No metric ${name}`);
    return Number(value);
  }

  /** Stops the program, and empties IPVS and conntrack for the next test. */
  async clear(): Promise<void> {
    await this.stop();
    this.apply();
    shell("ipvsadm -C; conntrack -F 2> /dev/null; rm -rf /run/kube-ipvs");
  }

  async destroy(): Promise<void> {
    await this.stop();
    for (const child of this.#children) child.kill("SIGKILL");
    this.#kernel.close();
    rmSync(this.#folder, { recursive: true });
  }
}

export async function until(
  condition: () => Promise<boolean>,
  timeoutMs: number,
  explain: () => Promise<string>,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadlineMs)
      throw new Error(`Timed out after ${timeoutMs} ms: ${await explain()}`);
    await pause(20);
  }
}

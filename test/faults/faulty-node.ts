/** A node in the lab with the built program, an API server and clients, and the faults' actions. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { isInKernel, type KernelText, observedText, plannedText } from "../support/kernel-text.ts";
import { enterNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, nodeAddress, podGateway } from "../support/node-network.ts";
import type { ApiObject } from "../support/objects.ts";
import { pauseAfterCheck } from "../support/pause-after-check.ts";
import { Program } from "../support/program.ts";
import { chainsOf, labRules, listRules, rulesFlags } from "../support/rules-writer.ts";
import { ApiProcess, type ApiStart } from "./api-process.ts";
import { ask } from "./ask.ts";
import { type Certificates, makeCertificates } from "./certificates.ts";
import {
  abilities,
  ClusterObjects,
  clientAddresses,
  echoAddresses,
  echoPod,
  echoTargets,
  portRangeMarks,
  unboundAddress,
} from "./cluster-objects.ts";
import { Traffic } from "./traffic.ts";

const folder = "/run/faults";
const apiPort = 6_443;
/** Timeout for any event: more than ten times what an idle machine needs. */
const settleMs = 300_000;
const churnSize = 10;
/** Number of open connections to each echo Service. */
const longPerTarget = 4;
/** Services, EndpointSlices and Nodes. */
const watchedKinds = 3;
const flags = [
  "--hostname-override=node-1",
  "--cluster-cidr=10.244.0.0/16",
  "-v=2",
  "--ipvs-min-sync-period=0s",
  "--ipvs-sync-period=30s",
  "--kube-ipvs-verification-period=10s",
  "--kube-ipvs-manual-weights=repair",
  // Only the first network namespace can set the limit.
  "--conntrack-max-per-core=0",
  `--kube-ipvs-port-range-marks=0x${portRangeMarks.toString(16)}`,
  `--kube-ipvs-unbound-addresses=${unboundAddress}/32`,
  "--kube-ipvs-weight-request-period=10s",
];

/** Options of rows that start the program in a different way than other rows. */
export interface ProgramStart {
  /** A command that precedes the program. */
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

export class FaultyNode {
  readonly objects: ClusterObjects;
  readonly certificates: Certificates;
  readonly folder: string = folder;
  readonly traffic: Traffic;
  program: Program;
  api: ApiProcess;
  readonly #rules: string;
  #plan: { readonly version: number; readonly text: KernelText };

  private constructor(parts: {
    readonly objects: ClusterObjects;
    readonly certificates: Certificates;
    readonly api: ApiProcess;
    readonly program: Program;
  }) {
    this.objects = parts.objects;
    this.certificates = parts.certificates;
    this.api = parts.api;
    this.program = parts.program;
    this.#rules = rulesText();
    const { objects } = parts;
    this.#plan = {
      version: objects.version,
      text: plannedText(objects.all(), [unboundAddress], abilities),
    };
    this.traffic = new Traffic(echoPod.name, echoTargets, longPerTarget);
  }

  /** Builds everything. Resolves after the program has synced and the clients have their connections. */
  static async build(serviceCount: number): Promise<FaultyNode> {
    buildNodeNetwork([echoPod]);
    enterNetworkNamespace("node");
    const [, otherAddress = ""] = echoAddresses;
    shell(`
      set -e
      ${clientAddresses.map((one) => `ip -n client addr replace ${one}/24 dev eth0`).join("\n")}
      ip -n client route add ${unboundAddress} via ${nodeAddress}
      ip link add announcer0 type dummy
      ip addr add ${unboundAddress}/32 dev announcer0
      ip -n ${echoPod.name} addr add ${otherAddress}/32 dev eth0
      ip route add ${otherAddress}/32 dev veth1 src ${podGateway}
    `);
    mkdirSync(folder, { recursive: true });
    const objects = new ClusterObjects(serviceCount);
    const certificates = makeCertificates(folder, apiPort);
    const start = { folder, port: apiPort, files: certificates.good, objects: objects.all() };
    const api = await ApiProcess.start(start);
    const program = startProgram(certificates);
    try {
      await program.prints(/SyncProxyRules complete/);
      const node = new FaultyNode({ objects, certificates, api, program });
      await node.repaired();
      await node.trafficFlows();
      return node;
    } catch (error) {
      // Remaining child processes would keep the lab running.
      program.kill("SIGKILL");
      await api.stop();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.traffic.stop();
    this.program.kill("SIGKILL");
    await this.program.ends();
    await this.api.stop();
  }

  // -- what changes ------------------------------------------------------------------------------------

  /** Makes a churn step and sends it to the API server. */
  async churn(size: number = churnSize): Promise<void> {
    const { applied, deleted } = this.objects.change(size);
    await this.api.command("delete", deleted);
    await this.api.command("apply", applied);
  }

  /** Makes a churn step without sending it. The API server has the change after its next restart. */
  churnUnseen(): void {
    this.objects.change(churnSize);
  }

  /** Breaks all connections to the API server and deletes its history, so everything is listed again. */
  async forceLists(): Promise<void> {
    await this.api.command("apply", this.objects.all().slice(0, 1));
    await this.api.command("compact");
    await this.api.command("reset");
  }

  async restartApi(other: Partial<ApiStart> = {}): Promise<void> {
    await this.api.stop();
    await this.startApi(other);
  }

  async startApi(other: Partial<ApiStart> = {}): Promise<void> {
    const files = this.certificates.good;
    const objects: Iterable<ApiObject> = this.objects.all();
    this.api = await ApiProcess.start({ folder, port: apiPort, files, objects, ...other });
  }

  /** Starts a new program after the last one has exited. Does not wait for it. */
  startProgram(start: ProgramStart = {}): void {
    this.program = startProgram(this.certificates, start);
  }

  /** Stops the program and starts it in another way. Resolves when the kernel state equals the plan. */
  async restartProgram(start: ProgramStart = {}): Promise<void> {
    this.program.kill("SIGTERM");
    await this.program.ends();
    this.startProgram(start);
    await this.serves();
    await this.repaired();
  }

  // -- what can be seen --------------------------------------------------------------------------------

  isRepaired(): boolean {
    return isInKernel(this.#planned());
  }

  hasRules(): boolean {
    return this.#rules === rulesText();
  }

  /** Resolves with the number of milliseconds when the kernel contains the planned state and rules. */
  async repaired(withinMs: number = settleMs): Promise<number> {
    const beginMs = performance.now();
    for (;;) {
      const checkBeganMs = performance.now();
      if (this.isRepaired() && this.hasRules()) return performance.now() - beginMs;
      if (checkBeganMs - beginMs > withinMs) this.#failUnrepaired();
      await pauseAfterCheck(checkBeganMs);
    }
  }

  /** Resolves when all connections of the clients are open. */
  async trafficFlows(): Promise<void> {
    await this.until("all connections are open", async () => {
      const { long, failed } = await this.traffic.take();
      return long === longPerTarget * echoTargets.length && failed === 0;
    });
  }

  /** The sum of the metric's series that start with this text. */
  async metric(beginning: string): Promise<number> {
    const { text } = await ask("http://127.0.0.1:10249/metrics");
    const lines = text.split("\n").filter((line) => line.startsWith(beginning));
    return lines.reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  }

  /** Resolves when the program is watching every kind of object. */
  watched(): Promise<void> {
    return this.until("every kind of object is watched", async () => {
      const { openWatches } = (await this.api.command("state")) as { readonly openWatches: number };
      return openWatches >= watchedKinds;
    });
  }

  /** Resolves when all faults of the API server have happened. */
  faultsDone(): Promise<void> {
    return this.until("all faults have happened", async () => {
      const { faultsLeft } = (await this.api.command("state")) as { readonly faultsLeft: number };
      return faultsLeft === 0;
    });
  }

  async healthStatus(): Promise<number> {
    return (await ask("http://127.0.0.1:10256/healthz")).status;
  }

  /** Resolves when the program answers on its metrics port and has synced. */
  serves(): Promise<void> {
    return this.until("the program has synced", async () => {
      return (await this.metric("kube_ipvs_sync_runs_total{").catch(() => 0)) > 0;
    });
  }

  async until(what: string, condition: () => Promise<boolean> | boolean): Promise<void> {
    const deadlineMs = performance.now() + settleMs;
    while (!(await condition())) {
      assert.ok(
        performance.now() < deadlineMs,
        `Timed out after ${settleMs} ms: ${what}\n${this.#tail()}`,
      );
      await pause(100);
    }
  }

  /** Whether the program printed this text after the mark from {@link mark}. */
  hasPrinted(text: string, mark: number): boolean {
    return this.program.output.includes(text, mark);
  }

  mark(): number {
    return this.program.output.length;
  }

  /** The plan is computed once for each object state, because it is read repeatedly. */
  #planned(): KernelText {
    const { version } = this.objects;
    if (this.#plan.version !== version) {
      this.#plan = { version, text: plannedText(this.objects.all(), [unboundAddress], abilities) };
    }
    return this.#plan.text;
  }

  #failUnrepaired(): never {
    const [planned, observed] = [this.#planned(), observedText()];
    console.error(this.#tail());
    assert.deepEqual(observed, planned);
    assert.equal(rulesText(), this.#rules);
    assert.fail("Repaired slightly too late");
  }

  #tail(): string {
    return this.program.output.split("\n").slice(-40).join("\n");
  }
}

function startProgram(certificates: Certificates, start: ProgramStart = {}): Program {
  const environment = { ...process.env, ...start.environment };
  const argv = [
    ...flags,
    ...rulesFlags,
    ...(start.flags ?? []),
    `--kubeconfig=${certificates.kubeconfig}`,
  ];
  return new Program(argv, start.command, { env: environment });
}

/** kube-ipvs's rules and jumps in both families, without counters. */
function rulesText(): string {
  if (labRules === "nftables") return chainsOf(shell(listRules));
  const saved = ["iptables-save", "ip6tables-save"].map(
    (program) => spawnSync(program, { encoding: "utf8" }).stdout,
  );
  const lines = saved.flatMap((text) => text.split("\n")).filter((line) => line.includes("KUBE"));
  return lines.map((line) => line.replace(/\[[0-9:]*\]/, "")).join("\n");
}

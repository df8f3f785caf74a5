/** A proxy under measurement: ours, or another one given as a command. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../support/api-server/api-server.ts";
import type { ProcessFigures } from "./agent-requests.ts";
import type { Machine } from "./machine.ts";

const project: string = join(import.meta.dirname, "../..");
const startTimeoutMs = 300_000;
const idleTimeoutMs = 240_000;
/** Of a second: three ticks. */
const idleCpuMs = 30;
const synced = "SyncProxyRules complete";

/** Nothing but the events: each periodic look has a case of its own. */
export const quietFlags: readonly string[] = [
  "--ipvs-sync-period=1h",
  "--kube-ipvs-verification-period=1h",
  "--kube-ipvs-rule-check-period=0s",
];

export interface SubjectCommand {
  readonly name: string;
  readonly argv: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly isOurs: boolean;
}

/** The built program, with logs of each sync. */
export function ourCommand(
  master: string,
  flags: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
): SubjectCommand {
  return {
    name: "kube-ipvs",
    argv: [
      join(project, "dist/kube-ipvs"),
      "--hostname-override=node-1",
      "--cluster-cidr=10.244.0.0/16",
      "--ipvs-min-sync-period=0s",
      // Only the first network namespace of a kernel may set it.
      ...["--conntrack-max-per-core=0", "--conntrack-min=0"],
      "-v=2",
      `--master=${master}`,
      ...flags,
    ],
    environment,
    isOurs: true,
  };
}

/** `template` with `{config}` in place of the path of a KubeProxyConfiguration file. */
export function peerCommand(template: string, master: string): SubjectCommand {
  const folder = join(project, "build/bench/peer");
  mkdirSync(folder, { recursive: true });
  const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "config.yaml")];
  writeFileSync(kubeconfig, kubeconfigText(master));
  writeFileSync(config, configText(kubeconfig));
  const argv = template.split(/\s+/).map((word) => word.replaceAll("{config}", config));
  return { name: "peer", argv, isOurs: false };
}

function kubeconfigText(master: string): string {
  return `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: ${JSON.stringify(master)}}}]
users: [{name: bench, user: {}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`;
}

function configText(kubeconfig: string): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ipvs
hostnameOverride: node-1
clusterCIDR: 10.244.0.0/16
clientConnection: {kubeconfig: ${JSON.stringify(kubeconfig)}}
ipvs: {minSyncPeriod: 0s, syncPeriod: 1h}
conntrack: {maxPerCore: 0, min: 0}
`;
}

export class Subject {
  readonly #machine: Machine;
  readonly pid: number;

  private constructor(machine: Machine, pid: number) {
    this.#machine = machine;
    this.pid = pid;
  }

  static async start(machine: Machine, { argv, environment }: SubjectCommand): Promise<Subject> {
    const request = environment === undefined ? { argv } : { argv, environment };
    const { pid } = await machine.ask("start", request);
    return new Subject(machine, pid);
  }

  /** Ours alone prints it: the first sync is over. */
  async hasSynced(): Promise<void> {
    const wanted = { pid: this.pid, text: synced, timeoutMs: startTimeoutMs };
    const { isThere } = await this.#machine.ask("waitForOutput", wanted);
    if (!isThere) throw new Error(`No first sync:\n${(await this.output()).slice(-4_000)}`);
  }

  /** Waits until it does nothing any more; gives the CPU time that it took until then. */
  async becomesIdle(): Promise<number> {
    const deadlineMs = performance.now() + idleTimeoutMs;
    const first = (await this.figures()).cpuMs;
    for (let last = first; ; ) {
      await pause(1_000);
      const { cpuMs } = await this.figures();
      if (cpuMs - last <= idleCpuMs || performance.now() > deadlineMs) return cpuMs - first;
      last = cpuMs;
    }
  }

  figures(): Promise<ProcessFigures> {
    return this.#machine.ask("figures", { pid: this.pid });
  }

  output(): Promise<string> {
    return this.#machine.ask("output", { pid: this.pid });
  }

  /** How long each sync took by its own log, in its order. */
  async syncTimesMs(): Promise<readonly number[]> {
    return [...(await this.output()).matchAll(/elapsed="?([\d.]+)ms/g)].map(([, ms]) => Number(ms));
  }

  /** Sum of a metric over its labels, of those lines that hold `part`. */
  async metric(name: string, part = ""): Promise<number> {
    const url = "http://127.0.0.1:10249/metrics";
    const text = await this.#machine.ask("fetch", { url });
    return text
      .split("\n")
      .filter((line) => line.startsWith(name) && line.includes(part))
      .reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  }

  /** Every message that changes the kernel is counted where it is sent. */
  changes(): Promise<number> {
    return this.metric("kube_ipvs_kernel_changes_total");
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await this.#machine.ask("end", { pid: this.pid, signal });
  }
}

/** Resolves when the daemon has read all objects: its watches of all three kinds are open. */
export async function objectsRead(server: ApiServer, watches = 3): Promise<number> {
  const deadlineMs = performance.now() + startTimeoutMs;
  while (server.openWatches < watches) {
    if (performance.now() > deadlineMs) throw new Error("The objects were not read in time");
    await pause(1);
  }
  return performance.now();
}

/** A measured proxy: kube-ipvs, or another one given as a command. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../support/api-server/api-server.ts";
import { type PeerMode, peerArguments } from "../support/peer.ts";
import type { ProcessFigures } from "./agent-requests.ts";
import type { Machine } from "./machine.ts";

const project: string = join(import.meta.dirname, "../..");
const startTimeoutMs = 300_000;
const idleTimeoutMs = 240_000;
/** CPU time of an idle process in a second: three ticks. */
const idleCpuMs = 30;
const synced = "SyncProxyRules complete";

/** Disables periodic checks, because each has its own case. */
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

/** The built program, which logs each sync. */
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
      // Only a kernel's first network namespace can set this limit.
      ...["--conntrack-max-per-core=0", "--conntrack-min=0"],
      "-v=2",
      `--master=${master}`,
      ...flags,
    ],
    environment,
    isOurs: true,
  };
}

/** iptables mode flags without a pause between syncs, which replace the IPVS mode flags in {@link ourCommand}. */
export const tablesFlags: readonly string[] = [
  "--proxy-mode=iptables",
  "--iptables-min-sync-period=0s",
  "--iptables-sync-period=1h",
];

/** `template` has the format of `make bench PEER=…`. */
export function peerCommand(
  template: string,
  master: string,
  mode: PeerMode = "ipvs",
): SubjectCommand {
  const folder = join(project, "build/bench/peer");
  return {
    name: "peer",
    argv: peerArguments(template, { server: master, mode, folder }),
    isOurs: false,
  };
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

  /** Resolves when the first sync is complete, which only kube-ipvs logs. */
  async hasSynced(): Promise<void> {
    const wanted = { pid: this.pid, text: synced, timeoutMs: startTimeoutMs };
    const { isThere } = await this.#machine.ask("waitForOutput", wanted);
    if (!isThere) throw new Error(`No first sync:\n${(await this.output()).slice(-4_000)}`);
  }

  /** Waits until the process is idle, and returns its CPU time until then. */
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

  /** Durations of the syncs in the program's log, in order. */
  async syncTimesMs(): Promise<readonly number[]> {
    return [...(await this.output()).matchAll(/elapsed="?([\d.]+)ms/g)].map(([, ms]) => Number(ms));
  }

  /** Sum of a metric over the lines that contain `part`. */
  async metric(name: string, part = ""): Promise<number> {
    const url = "http://127.0.0.1:10249/metrics";
    const text = await this.#machine.ask("fetch", { url });
    return text
      .split("\n")
      .filter((line) => line.startsWith(name) && line.includes(part))
      .reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  }

  /** Number of messages that change the kernel, counted when they are sent. */
  changes(): Promise<number> {
    return this.metric("kube_ipvs_kernel_changes_total");
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await this.#machine.ask("end", { pid: this.pid, signal });
  }
}

/** Resolves when the daemon has read all objects, so that its watches of all three kinds are open. */
export async function objectsRead(server: ApiServer, watches = 3): Promise<number> {
  const deadlineMs = performance.now() + startTimeoutMs;
  while (server.openWatches < watches) {
    if (performance.now() > deadlineMs) throw new Error("Timed out before the objects were read");
    await pause(1);
  }
  return performance.now();
}

/**
 * Runs the built program on its own node in the lab: the current network namespace, an API server in this process, and
 * a folder for the configuration and the program's files. Tests see only what an operator sees: health, metrics, log
 * and Events.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holderRecordIn } from "../../src/daemon/process/ownership-record.ts";
import { readState } from "../../src/daemon/process/state-file.ts";
import type { Holders } from "../../src/plan/claims/claim.ts";
import { ask } from "../faults/ask.ts";
import { ApiServer } from "./api-server/api-server.ts";
import { type ApiObject, node } from "./objects.ts";
import { patienceMs } from "./patience.ts";
import { pauseAfterCheck } from "./pause-after-check.ts";
import { Program } from "./program.ts";
import { labRules } from "./rules-writer.ts";

/** Fields of a KubeProxyConfiguration that override the ones that all nodes have. */
export interface NodeSettings {
  readonly mode?: "ipvs" | "iptables" | "userspace";
  readonly nodePortAddresses?: readonly string[];
  readonly clusterCIDR?: string;
  readonly detectLocalMode?: string;
  readonly detectLocal?: Readonly<Record<string, unknown>>;
  readonly ipvs?: Readonly<Record<string, unknown>>;
  readonly kubeIpvs?: Readonly<Record<string, unknown>>;
}

/** One log line with its keys; `msg` is the event. */
export interface PrintedLine extends Readonly<Record<string, unknown>> {
  readonly level: string;
  readonly msg: string;
}

/** Sysctls that kube-ipvs sets on every node and that tests do not need. */
const canaries: readonly string[] = ["expire_nodest_conn", "expire_quiescent_template"].map(
  (name) => `/proc/sys/net/ipv4/vs/${name}`,
);

export class ClusterNode {
  readonly api: ApiServer;
  readonly #folder: string;
  #settings: NodeSettings;
  #program: Program | undefined;
  /** Output of the programs that have exited. */
  #printed = "";

  private constructor(api: ApiServer, settings: NodeSettings) {
    this.api = api;
    this.#settings = settings;
    this.#folder = mkdtempSync(join(tmpdir(), "kube-ipvs-node-"));
    writeFileSync(join(this.#folder, "kubeconfig"), kubeconfig(api.url));
    this.configure(settings);
  }

  /** Serves these objects and a Node without starting a program. */
  static async build(
    objects: readonly ApiObject[] = [],
    settings: NodeSettings = {},
  ): Promise<ClusterNode> {
    return new ClusterNode(await ApiServer.start({ objects: [node(), ...objects] }), settings);
  }

  /** Writes a new configuration, which a running program reloads by itself. */
  configure(settings: NodeSettings): void {
    this.#settings = settings;
    const path = this.#path("config");
    writeFileSync(`${path}.new`, JSON.stringify(this.#configuration(), undefined, 1));
    renameSync(`${path}.new`, path);
  }

  get isRunning(): boolean {
    return this.#program !== undefined;
  }

  get program(): Program {
    assert.ok(this.#program !== undefined, "the program runs");
    return this.#program;
  }

  /** Starts the program and waits for its first sync. `program` replaces dist/kube-ipvs. */
  async start(environment: Readonly<Record<string, string>> = {}, program?: string): Promise<void> {
    this.spawn(environment, program);
    await this.program.prints(/SyncProxyRules complete/);
  }

  /** Starts the program without waiting. */
  spawn(environment: Readonly<Record<string, string>> = {}, program?: string): void {
    const env = { ...process.env, ...environment };
    const options = program === undefined ? { env } : { env, program };
    this.#program = new Program([`--config=${this.#path("config")}`], [], options);
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const program = this.#program;
    if (program === undefined) return;
    program.kill(signal);
    await program.ends();
    this.#printed += program.output;
    this.#program = undefined;
  }

  /** Runs `--cleanup` and returns its output. */
  async cleanUp(): Promise<string> {
    const program = new Program(["--cleanup", `--config=${this.#path("config")}`]);
    await program.ends();
    return program.output;
  }

  /** Stops everything. Leaves the kernel state in place. */
  async close(): Promise<void> {
    await this.stop("SIGKILL");
    await this.api.stop();
    rmSync(this.#folder, { recursive: true });
  }

  /** Owners of contested addresses in the record, which is written in the background shortly after each sync. */
  holders(): Holders {
    return holderRecordIn(readState(this.#path("state/state.json"))).held;
  }

  /** Deletes the record, as if its folder could not be written. */
  loseRecord(): void {
    rmSync(this.#path("state/state.json"), { force: true });
  }

  // -- what an operator sees ---------------------------------------------------------------------------

  async healthStatus(): Promise<number> {
    return (await ask("http://127.0.0.1:10256/healthz")).status;
  }

  /** Sum of the metric's series with these labels. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    const { text } = await ask("http://127.0.0.1:10249/metrics");
    return text
      .split("\n")
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) => wanted.every((pair) => line.includes(pair)))
      .reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
  }

  /** Log lines of all programs so far, optionally only those with this `reason`. */
  lines(reason?: string): readonly PrintedLine[] {
    const lines = (this.#printed + (this.#program?.output ?? "")).split("\n");
    const parsed = lines.filter((line) => line.startsWith("{")).flatMap(parseLine);
    return reason === undefined ? parsed : parsed.filter((line) => line["reason"] === reason);
  }

  /** `ForeignVirtualServer Service web: node node-1: …` */
  events(): readonly string[] {
    return this.api.events.events.map(({ reason, note, regarding }) => {
      const { kind, name } = regarding as { readonly kind: string; readonly name: string };
      return `${reason} ${kind} ${name}: ${note}`;
    });
  }

  /** The last lines of output, for a failure message. */
  tail(lineCount = 30): string {
    return (this.#printed + (this.#program?.output ?? "")).split("\n").slice(-lineCount).join("\n");
  }

  /** Waits until `condition` is true, and returns the number of milliseconds. */
  async until(
    what: string,
    condition: () => boolean | Promise<boolean>,
    timeoutMs: number = patienceMs,
  ): Promise<number> {
    const beganMs = performance.now();
    for (;;) {
      const checkBeganMs = performance.now();
      if (await condition()) return performance.now() - beganMs;
      const elapsedMs = performance.now() - beganMs;
      assert.ok(elapsedMs < timeoutMs, `Timed out after ${timeoutMs} ms: ${what}\n${this.tail()}`);
      await pauseAfterCheck(checkBeganMs);
    }
  }

  /**
   * Resolves after this many complete verifications. Changes a sysctl for each, because only a verification finds that.
   * Each change counts as one drift of kind `sysctl` and one write.
   */
  async verified(times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) {
      // Alternates between sysctls, because repairs of one that keeps changing would back off.
      const path = canaries[time % canaries.length] ?? "";
      const value = readFileSync(path, "utf8");
      writeFileSync(path, value.trim() === "0" ? "1" : "0");
      const isRepaired = (): boolean => readFileSync(path, "utf8") === value;
      await this.until("a verification ran", isRepaired);
    }
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #configuration(): unknown {
    const { ipvs, kubeIpvs, ...others } = this.#settings;
    const hasRules = labRules !== undefined && (others.mode ?? "ipvs") === "ipvs";
    return {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode: "ipvs",
      hostnameOverride: "node-1",
      clusterCIDR: "10.244.0.0/16,fd00:244::/32",
      clientConnection: { kubeconfig: this.#path("kubeconfig") },
      // Only the kernel's first network namespace can set this limit.
      conntrack: { maxPerCore: 0 },
      logging: { format: "json", verbosity: 2 },
      ipvs: { syncPeriod: "1h", minSyncPeriod: "0s", ...ipvs },
      kubeIpvs: {
        verificationPeriod: "2s",
        // Rule checks start programs, which are expensive in the lab.
        ruleCheckPeriod: "0s",
        stateFile: this.#path("state/state.json"),
        configReload: true,
        ...(hasRules ? { rules: labRules } : {}),
        ...kubeIpvs,
      },
      ...others,
    };
  }
}

function parseLine(line: string): readonly PrintedLine[] {
  try {
    return [JSON.parse(line) as PrintedLine];
  } catch {
    // The last line may be incomplete.
    return [];
  }
}

function kubeconfig(server: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "lab", cluster: { server } }],
    contexts: [{ name: "lab", context: { cluster: "lab", user: "node" } }],
    users: [{ name: "node", user: {} }],
    "current-context": "lab",
  });
}

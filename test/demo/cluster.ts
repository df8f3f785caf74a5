/** Everything that the steps use: the network, the pods, the manifests and the daemon. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, type Pod, removeNodeNetwork } from "../support/node-network.ts";
import type { TrafficReport } from "./traffic.ts";

export const clusterIp = "10.96.0.10";
export const nodePort = 30080;
export const pods: readonly Pod[] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
  { name: "pod-3", address: "10.244.1.30" },
];

const podPort = 8080;
const here = import.meta.dirname;
const program = join(here, "../../dist/kube-ipvs");
/** Detects hangs. On a busy machine, the lab kernel takes minutes. */
const readyTimeoutMs = 180_000;
/** The demo indents output by five columns and prints at most 80. */
const outputWidth = "75";

export interface Traffic {
  /** Ends the traffic and returns the counts. */
  finish(): Promise<TrafficReport>;
}

export interface CommandResult {
  readonly status: number;
  readonly output: string;
}

interface CommandFailure {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The demo's running parts, which are started once and always stopped at the end. */
export class Cluster {
  readonly #folder = mkdtempSync(join(tmpdir(), "kube-ipvs-demo-"));
  readonly #pods = new Map<string, ChildProcess>();
  readonly #children = new Set<ChildProcess>();
  #daemon: ChildProcess | undefined;
  #daemonFlags: readonly string[] = [];
  #daemonLog = "";
  #isBuilt = false;

  /** Moves this process to the node's namespace, where commands and requests run. */
  async build(): Promise<void> {
    buildNodeNetwork(pods);
    this.#isBuilt = true;
    enterNetworkNamespace("node");
    await Promise.all(pods.map((pod) => this.startPod(pod)));
  }

  /** Resolves when the pod answers. */
  async startPod(pod: Pod): Promise<void> {
    const child = this.#spawn(pod.name, [join(here, "pod.ts"), pod.name, String(podPort)]);
    this.#pods.set(pod.name, child);
    await until(`http://${pod.address}:${podPort}/`);
  }

  async stopPod(pod: Pod): Promise<void> {
    const child = this.#pods.get(pod.name);
    this.#pods.delete(pod.name);
    if (child !== undefined) await stopped(child, "SIGTERM");
  }

  /** Writes the manifests as an editor does: replaces the file with a new one. */
  writeManifests(ready: readonly Pod[]): void {
    const path = join(this.#folder, "web.yaml");
    writeFileSync(`${path}.new`, manifests(ready));
    renameSync(`${path}.new`, path);
  }

  async startDaemon(): Promise<void> {
    const flags = ["--manifests", this.#folder, "--cluster-cidr", "10.244.0.0/16", "-v=2"];
    const naming = ["--hostname-override", "node-1", "--ipvs-min-sync-period", "0s"];
    // The conntrack limit belongs to the host and cannot be set from the demo's node.
    const conntrack = ["--conntrack-max-per-core", "0"];
    this.#daemonFlags = [...flags, ...naming, ...conntrack];
    this.#daemon = spawn(program, this.#daemonFlags, {
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#daemon.stdout, this.#daemon.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#daemonLog += chunk.toString();
      });
    }
    await until("http://127.0.0.1:10249/proxyMode");
    await this.waitFor(() => shell("ipvsadm -Sn").split("\n").filter(isRealServer).length >= 6);
  }

  /** Pauses the daemon, because it would repair what the test removes. */
  freezeDaemon(): void {
    this.#daemon?.kill("SIGSTOP");
  }

  /** Sends SIGTERM and returns the exit status and the duration. */
  async stopDaemon(): Promise<{ readonly status: number | null; readonly elapsedMs: number }> {
    const daemon = this.#daemon;
    if (daemon === undefined) throw new Error("The daemon is not running");
    const beganMs = performance.now();
    const status = await stopped(daemon, "SIGTERM");
    this.#daemon = undefined;
    return { status, elapsedMs: performance.now() - beganMs };
  }

  /** Runs an operator's command with the daemon's flags, and returns its output and exit status. */
  async command(...command: readonly string[]): Promise<CommandResult> {
    try {
      const args = [...command, "--width", outputWidth, ...this.#daemonFlags];
      const { stdout } = await promisify(execFile)(program, args);
      return { status: 0, output: stdout };
    } catch (error) {
      const { code, stdout = "", stderr = "" } = error as Partial<CommandFailure>;
      if (typeof code !== "number") throw error;
      return { status: code, output: stdout + stderr };
    }
  }

  async cleanUp(): Promise<string> {
    const { stdout, stderr } = await promisify(execFile)(program, ["--cleanup"]);
    return stdout + stderr;
  }

  get daemonLog(): string {
    return this.#daemonLog;
  }

  /** Sends requests from a namespace as fast as possible, eight in parallel. */
  async requests(from: string, url: string, count: number): Promise<TrafficReport> {
    const argv = [
      "netns",
      "exec",
      from,
      process.execPath,
      join(here, "traffic.ts"),
      url,
      `${count}`,
    ];
    const { stdout } = await promisify(execFile)("ip", argv);
    return JSON.parse(stdout) as TrafficReport;
  }

  /** Sends requests at a steady rate until the caller stops it. */
  traffic(from: string, url: string, perSecond: number): Traffic {
    const child = this.#spawn(from, [join(here, "traffic.ts"), url, "1000000", String(perSecond)]);
    let output = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
    return {
      finish: async () => {
        await stopped(child, "SIGTERM");
        return JSON.parse(output) as TrafficReport;
      },
    };
  }

  async waitFor(condition: () => boolean): Promise<void> {
    const deadlineMs = performance.now() + readyTimeoutMs;
    while (!condition()) {
      if (performance.now() > deadlineMs)
        throw new Error(`Timed out after ${waitText()}\n${this.#daemonLog}`);
      await pause(50);
    }
  }

  async destroy(): Promise<void> {
    if (this.#daemon !== undefined) await stopped(this.#daemon, "SIGKILL");
    for (const child of this.#children) await stopped(child, "SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
    leaveNetworkNamespace();
    if (this.#isBuilt) removeNodeNetwork(pods);
  }

  #spawn(namespace: string, argv: readonly string[]): ChildProcess {
    const child = spawn("ip", ["netns", "exec", namespace, process.execPath, ...argv], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.add(child);
    child.once("exit", () => this.#children.delete(child));
    return child;
  }
}

function isRealServer(line: string): boolean {
  return line.startsWith("-a ");
}

/** Resolves with the exit status, or `null` if a signal killed the process. */
function stopped(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once("close", (status) => resolve(status));
    child.kill(signal);
  });
}

export function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** A response body. Undefined if nothing listens. */
export function fetchText(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: 2_000 }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.on("end", () => resolve(body));
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(undefined));
  });
}

/** A text with the time waited and the machine's load. */
function waitText(): string {
  return `${readyTimeoutMs / 1_000} s; load average here ${loadavg()[0]?.toFixed(1)}`;
}

async function until(url: string): Promise<void> {
  const deadlineMs = performance.now() + readyTimeoutMs;
  while ((await fetchText(url)) === undefined) {
    if (performance.now() > deadlineMs)
      throw new Error(`No answer from ${url} within ${waitText()}`);
    await pause(50);
  }
}

function manifests(ready: readonly Pod[]): string {
  const endpoints = ready.map(
    ({ address }) =>
      `  - addresses: [${address}]\n    nodeName: node-1\n    conditions: {ready: true}`,
  );
  return `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: ${clusterIp}
  ports: [{name: http, port: 80, nodePort: ${nodePort}, targetPort: ${podPort}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: default
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{name: http, port: ${podPort}}]
endpoints:
${endpoints.join("\n")}
`;
}

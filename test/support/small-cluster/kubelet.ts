/** Runs one node's pods, each with a network namespace and a process. Uses the program in dist/. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { ApiServer } from "../api-server/api-server.ts";
import type { ApiObject } from "../objects.ts";
import { addPodNetwork, type ClusterNodePlace, removePodNetwork } from "./cluster-network.ts";

const dist: string = join(import.meta.dirname, "../../../dist");
/** Path of the program in the image. */
const imageFolder = "/usr/local/bin/";

interface PodSpec {
  readonly nodeName: string;
  readonly hostNetwork?: boolean;
  readonly containers: readonly [{ readonly command: readonly string[] }];
}

interface RunningPod {
  readonly namespace: string;
  readonly child: ChildProcess;
  readonly isHost: boolean;
}

export class Kubelet {
  readonly #api: ApiServer;
  readonly #place: ClusterNodePlace;
  /** The text that a process prints when its pod is ready. */
  readonly #readyLine: RegExp;
  readonly #pods = new Map<string, RunningPod>();
  #podCount = 0;
  /** Output of all pods that use the node's network. */
  output = "";

  constructor(api: ApiServer, place: ClusterNodePlace, readyLine: RegExp) {
    this.#api = api;
    this.#place = place;
    this.#readyLine = readyLine;
    api.store.subscribe(({ resource, previous, current }) => {
      if (resource.kind !== "Pod") return;
      if (previous === undefined && current !== undefined) this.#start(current);
      if (previous !== undefined && current === undefined) void this.#end(previous);
    });
  }

  /** Starts a command in a pod's network. Undefined if the pod runs on another node. */
  exec(name: string, command: readonly string[]): ChildProcess | undefined {
    const pod = this.#pods.get(name);
    if (pod === undefined) return undefined;
    return spawn("ip", ["netns", "exec", pod.namespace, ...command], {
      env: { ...process.env, PATH: `${dist}:${process.env["PATH"]}` },
      stdio: "pipe",
    });
  }

  /** Stops all processes. */
  async stop(): Promise<void> {
    await Promise.all([...this.#pods.values()].map(({ child }) => ended(child, "SIGKILL")));
  }

  #start(pod: ApiObject): void {
    const spec = pod["spec"] as unknown as PodSpec;
    if (spec.nodeName !== this.#place.name) return;
    const name = String(pod.metadata["name"]);
    const isHost = spec.hostNetwork === true;
    if (!isHost) this.#podCount += 1;
    const addresses = isHost
      ? this.#place.addresses
      : addPodNetwork(name, this.#place, this.#podCount);
    const namespace = isHost ? this.#place.name : name;
    const [program = "", ...args] = spec.containers[0].command;
    const child = spawn(
      "ip",
      ["netns", "exec", namespace, program.replace(imageFolder, `${dist}/`), ...args.map(filledIn)],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#pods.set(name, { namespace, child, isHost });
    this.#becomeReady(pod, child, addresses);

    function filledIn(word: string): string {
      return word.replaceAll("$(NODE_NAME)", spec.nodeName);
    }
  }

  #becomeReady(pod: ApiObject, child: ChildProcess, addresses: readonly [string, string]): void {
    let printed = "";
    let isReady = false;
    const note = (bytes: Buffer): void => {
      printed += bytes.toString();
      this.output += bytes.toString();
      if (isReady || !this.#readyLine.test(printed)) return;
      isReady = true;
      const [podIP] = addresses;
      const podIPs = addresses.map((ip) => ({ ip }));
      const conditions = [{ type: "Ready", status: "True" }];
      this.#api.apply({ ...pod, status: { phase: "Running", podIP, podIPs, conditions } });
    };
    child.stdout?.on("data", note);
    child.stderr?.on("data", note);
  }

  async #end(pod: ApiObject): Promise<void> {
    const name = String(pod.metadata["name"]);
    const running = this.#pods.get(name);
    if (running === undefined) return;
    await ended(running.child, "SIGTERM");
    this.#pods.delete(name);
    if (!running.isHost) removePodNetwork(name);
    this.onEnd(pod);
  }

  /** Called when a pod exits, so that a DaemonSet's pods are recreated. */
  onEnd: (pod: ApiObject) => void = () => {};
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "close");
  child.kill(signal);
  await closed;
}

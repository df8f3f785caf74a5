/** The cluster as the checks see it: nodes with their daemons, clients and backends, and the Services that were applied. */

import type { V1Service } from "@kubernetes/client-node";
import type { Status } from "../answer/answers.ts";
import { parseJson } from "../base/parse-json.ts";
import type { ClusterApi } from "./cluster/cluster-api.ts";
import type { CommandResult, ExecShell, PodPlace } from "./cluster/exec-shell.ts";
import type { Daemon } from "./daemon-pod.ts";
import { program, type ServiceRole } from "./objects.ts";
import type { Patience } from "./patience.ts";
import type { Answers, Question } from "./pod/conversation.ts";

export interface Backend {
  readonly name: string;
  readonly place: PodPlace;
  readonly nodeName: string;
  /** One per family, the primary first. */
  readonly addresses: readonly string[];
}

/** A node with pods of the test on it. */
export interface TestNode {
  readonly name: string;
  /** InternalIP. */
  readonly addresses: readonly string[];
  /** Undefined without the label topology.kubernetes.io/zone. */
  readonly zone?: string;
  readonly daemon: Daemon;
  readonly client: PodPlace;
  readonly backends: readonly Backend[];
}

export interface Scene {
  readonly namespace: string;
  readonly api: ClusterApi;
  readonly shell: ExecShell;
  readonly patience: Patience;
  /** Of all nodes. */
  readonly daemons: readonly Daemon[];
  /** One at least. */
  readonly nodes: readonly [TestNode, ...TestNode[]];
  readonly services: ReadonlyMap<ServiceRole, V1Service>;
  /** Of the first node's daemon, before anything was tried. */
  readonly firstStatus: Status;
  /** Finds the pods of the daemons again. */
  readonly listDaemons: () => Promise<readonly Daemon[]>;
}

/** Where connections come from. */
export interface Vantage {
  /** `a pod on node-1`. */
  readonly label: string;
  readonly place: PodPlace;
}

export function podVantage(node: TestNode): Vantage {
  return { label: `a pod on ${node.name}`, place: node.client };
}

/** The node's own network, which the daemon's pod shares. */
export function hostVantage(node: TestNode): Vantage {
  return { label: `node ${node.name}`, place: node.daemon.place };
}

export function allBackends({ nodes }: Scene): readonly Backend[] {
  return nodes.flatMap(({ backends }) => backends);
}

/** One per family, the primary first. */
export function clusterIps(scene: Scene, role: ServiceRole): readonly string[] {
  return scene.services.get(role)?.spec?.clusterIPs ?? [];
}

export function nodePort(scene: Scene, role: ServiceRole): number {
  return scene.services.get(role)?.spec?.ports?.[0]?.nodePort ?? 0;
}

/** A node's address of the family that the Service has first. */
export function nodeAddress(scene: Scene, role: ServiceRole, node: TestNode): string {
  const isIpv6 = clusterIps(scene, role)[0]?.includes(":") === true;
  const address = node.addresses.find((one) => one.includes(":") === isIpv6);
  if (address === undefined) throw new Error(`Node ${node.name} has no InternalIP of that family`);
  return address;
}

/** Answers to all questions, in their order. */
export async function askFrom(
  { shell }: Scene,
  { place, label }: Vantage,
  questions: readonly Question[],
): Promise<readonly Answers[]> {
  const result = await shell.run(place, [program, "ask", JSON.stringify(questions)]);
  return parseJson(outputOf(result, label)) as readonly Answers[];
}

/** A command of the daemon's program, in its pod, with its flags. */
export async function runOnNode(
  { shell }: Pick<Scene, "shell">,
  { place, flags }: Daemon,
  [command, ...rest]: readonly [string, ...string[]],
): Promise<CommandResult> {
  return await shell.run(place, ["kube-ipvs", command, ...flags, ...rest]);
}

export async function statusOf(scene: Pick<Scene, "shell">, daemon: Daemon): Promise<Status> {
  const result = await runOnNode(scene, daemon, ["status", "--output=json"]);
  if (result.out === "") outputOf({ ...result, exitCode: 1 }, `kube-ipvs on ${daemon.nodeName}`);
  return parseJson(result.out) as Status;
}

/** What a command printed that had to succeed. */
export function outputOf({ exitCode, out, err }: CommandResult, who: string): string {
  if (exitCode === 0) return out;
  const words = (err.trim() || out.trim()).split("\n").at(-1) ?? "";
  throw new Error(`The command on ${who} ended with ${exitCode}: ${words}`);
}

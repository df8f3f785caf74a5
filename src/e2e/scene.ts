/** The cluster as checks see it: nodes with clients and backends, daemons, and the Services of the test. */
import type { V1Service } from "@kubernetes/client-node";
import type { Status } from "../answer/answers.ts";
import { counted } from "../base/counted.ts";
import { parseJson } from "../base/parse-json.ts";
import type { ClusterApi } from "./cluster/cluster-api.ts";
import { type ExecShell, failureOf, type PodPlace } from "./cluster/exec-shell.ts";
import type { Daemon } from "./daemon-pod.ts";
import type { ServiceRole } from "./objects.ts";
import { judged, type Outcome } from "./outcome.ts";
import type { Patience } from "./patience.ts";
import type { Vantage } from "./vantage.ts";

export interface Backend {
  readonly name: string;
  /** One address per IP family, beginning with the primary family. */
  readonly addresses: readonly string[];
}

export interface TestNode {
  readonly name: string;
  /** Addresses of type InternalIP. */
  readonly addresses: readonly string[];
  /** Undefined if the node does not have the label topology.kubernetes.io/zone. */
  readonly zone?: string;
  readonly client: PodPlace;
  readonly fromPod: Vantage;
  /** The node's host network, from which the daemon's pod opens connections. */
  readonly fromHost: Vantage;
  readonly backends: readonly Backend[];
}

export interface Scene {
  readonly namespace: string;
  readonly api: ClusterApi;
  readonly shell: ExecShell;
  readonly patience: Patience;
  readonly nodes: readonly [TestNode, ...TestNode[]];
  readonly services: ReadonlyMap<ServiceRole, V1Service>;
  /** The status of the first node's daemon before the first check. */
  readonly firstStatus: Status;
  /** Lists the daemons' pods again because a restart replaces a pod. */
  readonly listDaemons: () => Promise<readonly Daemon[]>;
}

export function allBackends({ nodes }: Scene): readonly Backend[] {
  return nodes.flatMap(({ backends }) => backends);
}

/** Returns one cluster IP per IP family, beginning with the primary family. */
export function clusterIps(scene: Scene, role: ServiceRole): readonly string[] {
  return scene.services.get(role)?.spec?.clusterIPs ?? [];
}

export function nodePort(scene: Scene, role: ServiceRole): number {
  return scene.services.get(role)?.spec?.ports?.[0]?.nodePort ?? 0;
}

/** Returns the node's address in the Service's primary family. */
export function nodeAddress(scene: Scene, role: ServiceRole, node: TestNode): string {
  const isIpv6 = clusterIps(scene, role)[0]?.includes(":") === true;
  const address = node.addresses.find((one) => one.includes(":") === isIpv6);
  if (address === undefined)
    throw new Error(`Node ${node.name} has no ${isIpv6 ? "IPv6" : "IPv4"} InternalIP`);
  return address;
}

export async function daemonOn(
  { listDaemons }: Pick<Scene, "listDaemons">,
  node: string,
): Promise<Daemon> {
  const daemon = (await listDaemons()).find(({ nodeName }) => nodeName === node);
  if (daemon === undefined) throw new Error(`No kube-ipvs pod runs on node ${node}`);
  return daemon;
}

/** Runs a command of kube-ipvs with the daemon's flags, and returns the JSON that it prints. */
export async function answerOf<Answer>(
  shell: ExecShell,
  { nodeName, place, flags }: Daemon,
  ...[command, ...rest]: readonly [string, ...string[]]
): Promise<Answer> {
  const words = ["kube-ipvs", command, ...flags, ...rest, "--output=json"];
  const result = await shell.run(place, words);
  // A command that answers may exit with a non-zero code, which is its verdict.
  if (result.out !== "") return parseJson(result.out) as Answer;
  throw failureOf(result, `kube-ipvs ${command} on ${nodeName}`);
}

/**
 * Checks each daemon. Every attempt lists the daemons again. The detail consists of `promise` and, for example, "on 3
 * nodes".
 */
export async function judgeDaemons(
  { patience, listDaemons }: Pick<Scene, "patience" | "listDaemons">,
  promise: string,
  problemsOf: (daemon: Daemon) => Promise<readonly string[]>,
): Promise<Outcome> {
  let daemons: readonly Daemon[] = [];
  const problems = await patience.problemsOf(async () => {
    daemons = await listDaemons();
    return daemons.length === 0
      ? ["no kube-ipvs pod runs"]
      : (await Promise.all(daemons.map(problemsOf))).flat();
  });
  return judged(problems, `${promise} on ${counted(daemons.length, "node")}`);
}

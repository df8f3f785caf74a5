/** Checks that connections to cluster IPs and node ports reach backends, with affinity and in both IP families. */
import { counted } from "../../base/counted.ts";
import { servicePort } from "../objects.ts";
import { notApplicable, type Outcome } from "../outcome.ts";
import type { Question } from "../pod/conversation.ts";
import { allBackends, clusterIps, nodeAddress, nodePort, type Scene } from "../scene.ts";
import { type Finding, reach, tcp } from "./answers.ts";

const protocols = ["TCP", "UDP"] as const;
/** With these schedulers, a few connections suffice to reach every backend. */
const evenSchedulers: ReadonlySet<string> = new Set(["rr", "wrr"]);
const affinityAttempts = 8;

export async function clusterIp(scene: Scene): Promise<Outcome> {
  const backends = allBackends(scene);
  const [address = ""] = clusterIps(scene, "web");
  const { mode, scheduler } = scene.firstStatus;
  const isEven = mode === "ipvs" && evenSchedulers.has(scheduler);
  const detail = `${address}: TCP and UDP reach ${backends.length} backends from pods and from the node, on ${counted(scene.nodes.length, "node")}`;
  return await scene.patience.outcomeOf(detail, async () => {
    const found = await reachFromEverywhere(scene, address, servicePort, 2 * backends.length);
    return [...problemsOf(found), ...(isEven ? idleProblems(scene, found) : [])];
  });
}

export async function nodePorts(scene: Scene): Promise<Outcome> {
  const port = nodePort(scene, "node-port");
  const addresses = scene.nodes.map((node) => nodeAddress(scene, "node-port", node));
  const detail = `TCP and UDP reach port ${port} of ${addresses.join(", ")} from pods and from nodes`;
  return await scene.patience.outcomeOf(detail, async () => {
    const found = addresses.map((address) => reachFromEverywhere(scene, address, port, 2));
    return problemsOf((await Promise.all(found)).flat());
  });
}

export async function sessionAffinity(scene: Scene): Promise<Outcome> {
  const [address = ""] = clusterIps(scene, "affinity");
  const question = tcp(address, servicePort, affinityAttempts);
  const detail = `${affinityAttempts} connections from each client reached the same backend`;
  return await scene.patience.outcomeOf(detail, async () => {
    const found = scene.nodes.map(async ({ fromPod }) => {
      const { answers, problems } = await reach(fromPod, question, allBackends(scene));
      const names = new Set(answers.map(({ name }) => name));
      return names.size > 1
        ? [...problems, `${fromPod.label} reached ${[...names].join(", ")}`]
        : problems;
    });
    return (await Promise.all(found)).flat();
  });
}

export async function dualStack(scene: Scene): Promise<Outcome> {
  const [, second] = clusterIps(scene, "web");
  if (second === undefined)
    return notApplicable("the cluster assigns only one IP family to a Service");
  const detail = `TCP and UDP reach ${second} from pods and from nodes`;
  return await scene.patience.outcomeOf(detail, async () =>
    problemsOf(await reachFromEverywhere(scene, second, servicePort, 2)),
  );
}

/** Tries both protocols `count` times, from a pod on each node and from each node. Any backend may answer. */
async function reachFromEverywhere(
  scene: Scene,
  address: string,
  port: number,
  count: number,
): Promise<readonly Finding[]> {
  const vantages = scene.nodes.flatMap(({ fromPod, fromHost }) => [fromPod, fromHost]);
  const questions = protocols.map((protocol): Question => ({ protocol, address, port, count }));
  const backends = allBackends(scene);
  return await Promise.all(
    vantages.flatMap((vantage) => questions.map((question) => reach(vantage, question, backends))),
  );
}

function problemsOf(found: readonly Finding[]): readonly string[] {
  return found.flatMap(({ problems }) => problems);
}

function idleProblems(scene: Scene, found: readonly Finding[]): readonly string[] {
  const seen = new Set(found.flatMap(({ answers }) => answers.map(({ name }) => name)));
  return allBackends(scene)
    .filter(({ name }) => !seen.has(name))
    .map(({ name }) => `no connection reached ${name}`);
}

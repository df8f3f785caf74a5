/** Cluster IPs, node ports, affinity and both IP families: does each connection reach a backend? Pure. */
import { counted } from "../../base/counted.ts";
import { servicePort } from "../objects.ts";
import { notApplicable, type Outcome } from "../outcome.ts";
import type { Answers, Question } from "../pod/conversation.ts";
import {
  allBackends,
  clusterIps,
  hostVantage,
  nodeAddress,
  nodePort,
  podVantage,
  type Scene,
  type Vantage,
} from "../scene.ts";
import { reached, tcp } from "./answers.ts";
import type { Probe, TrafficPlan } from "./traffic.ts";

const protocols = ["TCP", "UDP"] as const;
/** Schedulers with which a few connections reach every backend. */
const evenSchedulers: ReadonlySet<string> = new Set(["rr", "wrr"]);
const affinityAttempts = 8;

export function clusterIp(scene: Scene): TrafficPlan {
  const backends = allBackends(scene);
  const [address = ""] = clusterIps(scene, "web");
  const { mode, scheduler } = scene.firstStatus;
  const isEven = mode === "ipvs" && evenSchedulers.has(scheduler);
  return {
    probes: fromEverywhere(scene, questionsTo(address, servicePort, 2 * backends.length)),
    problemsOfAll: (all) => (isEven ? idleProblems(scene, all) : []),
    detail: `${address}: TCP and UDP reach ${backends.length} backends from pods and from the node, on ${counted(scene.nodes.length, "node")}`,
  };
}

export function nodePorts(scene: Scene): TrafficPlan {
  const port = nodePort(scene, "node-port");
  const addresses = scene.nodes.map((node) => nodeAddress(scene, "node-port", node));
  const questions = addresses.flatMap((address) => questionsTo(address, port, 2));
  return {
    probes: fromEverywhere(scene, questions),
    detail: `port ${port} of ${addresses.join(", ")}, from pods and from nodes`,
  };
}

export function sessionAffinity(scene: Scene): TrafficPlan {
  const [address = ""] = clusterIps(scene, "affinity");
  const question = tcp(address, servicePort, affinityAttempts);
  return {
    probes: scene.nodes.map((node): Probe => {
      const probe = reached(podVantage(node), question, allBackends(scene));
      return {
        ...probe,
        problemsOf: (answers) => [
          ...probe.problemsOf(answers),
          ...spreadProblems(probe.vantage, answers),
        ],
      };
    }),
    detail: `${affinityAttempts} connections of a client reach one backend`,
  };
}

export function dualStack(scene: Scene): TrafficPlan | Outcome {
  const [, second] = clusterIps(scene, "web");
  if (second === undefined) return notApplicable("the cluster gives a Service one IP family");
  return {
    probes: fromEverywhere(scene, questionsTo(second, servicePort, 2)),
    detail: `${second}: TCP and UDP, from pods and from nodes`,
  };
}

/** Both protocols, `count` times each. */
function questionsTo(address: string, port: number, count: number): readonly Question[] {
  return protocols.map((protocol) => ({ protocol, address, port, count }));
}

/** From a pod on each node and from each node, to any backend. */
function fromEverywhere(scene: Scene, questions: readonly Question[]): readonly Probe[] {
  const vantages = scene.nodes.flatMap((node) => [podVantage(node), hostVantage(node)]);
  return vantages.flatMap((vantage) =>
    questions.map((question) => reached(vantage, question, allBackends(scene))),
  );
}

function idleProblems(scene: Scene, all: readonly Answers[]): readonly string[] {
  const seen = new Set(all.flatMap(({ answers }) => answers.map(({ name }) => name)));
  return allBackends(scene)
    .filter(({ name }) => !seen.has(name))
    .map(({ name }) => `no connection reached ${name}`);
}

function spreadProblems({ label }: Vantage, { answers }: Answers): readonly string[] {
  const names = new Set(answers.map(({ name }) => name));
  return names.size > 1 ? [`${label} reached ${[...names].join(", ")}`] : [];
}

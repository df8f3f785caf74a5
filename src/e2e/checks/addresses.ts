/** Cluster IPs, node ports, affinity and both IP families: does each connection reach a backend? */
import { servicePort } from "../objects.ts";
import { judged, notApplicable, type Outcome } from "../outcome.ts";
import type { Answers, Question } from "../pod/conversation.ts";
import {
  allBackends,
  askFrom,
  clusterIps,
  hostVantage,
  nodeAddress,
  nodePort,
  podVantage,
  type Scene,
  statusOf,
  type Vantage,
} from "../scene.ts";
import { reachProblems } from "./answers.ts";

const protocols = ["TCP", "UDP"] as const;
/** Schedulers with which a few connections reach every backend. */
const evenSchedulers: ReadonlySet<string> = new Set(["rr", "wrr"]);
const affinityAttempts = 8;

function everywhere({ nodes }: Scene): readonly Vantage[] {
  return nodes.flatMap((node) => [podVantage(node), hostVantage(node)]);
}

/** Both protocols, `count` times each. */
function questionsTo(address: string, port: number, count: number): readonly Question[] {
  return protocols.map((protocol) => ({ protocol, address, port, count }));
}

export async function clusterIp(scene: Scene): Promise<Outcome> {
  const backends = allBackends(scene);
  const [address = ""] = clusterIps(scene, "web");
  const questions = questionsTo(address, servicePort, 2 * backends.length);
  const isEven = await schedulesEvenly(scene);
  const problems = await scene.patience.problemsOf(async () => {
    const { problems, seen } = await askEverywhere(scene, questions);
    const idle = isEven ? backends.filter(({ name }) => !seen.has(name)) : [];
    return [...problems, ...idle.map(({ name }) => `no connection reached ${name}`)];
  });
  const { length } = scene.nodes;
  return judged(
    problems,
    `${address}: TCP and UDP reach ${backends.length} backends from pods and from the node, on ${length} ${length === 1 ? "node" : "nodes"}`,
  );
}

export async function nodePorts(scene: Scene): Promise<Outcome> {
  const port = nodePort(scene, "node-port");
  const addresses = scene.nodes.map((node) => nodeAddress(scene, "node-port", node));
  const questions = addresses.flatMap((address) => questionsTo(address, port, 2));
  const problems = await scene.patience.problemsOf(
    async () => (await askEverywhere(scene, questions)).problems,
  );
  return judged(problems, `port ${port} of ${addresses.join(", ")}, from pods and from nodes`);
}

export async function sessionAffinity(scene: Scene): Promise<Outcome> {
  const [address = ""] = clusterIps(scene, "affinity");
  const question: Question = {
    protocol: "TCP",
    address,
    port: servicePort,
    count: affinityAttempts,
  };
  const problems = await scene.patience.problemsOf(async () => {
    const perNode = await Promise.all(
      scene.nodes.map(async (node) => {
        const vantage = podVantage(node);
        const [answers = nobody] = await askFrom(scene, vantage, [question]);
        const names = new Set(answers.answers.map(({ name }) => name));
        const spread = names.size > 1 ? [`${vantage.label} reached ${[...names].join(", ")}`] : [];
        return [...reachProblems(vantage.label, question, answers, allBackends(scene)), ...spread];
      }),
    );
    return perNode.flat();
  });
  return judged(problems, `${affinityAttempts} connections of a client reach one backend`);
}

export async function dualStack(scene: Scene): Promise<Outcome> {
  const [, second] = clusterIps(scene, "web");
  if (second === undefined) return notApplicable("the cluster gives a Service one IP family");
  const questions = questionsTo(second, servicePort, 2);
  const problems = await scene.patience.problemsOf(
    async () => (await askEverywhere(scene, questions)).problems,
  );
  return judged(problems, `${second}: TCP and UDP, from pods and from nodes`);
}

const nobody: Answers = { answers: [], errors: [] };

async function askEverywhere(
  scene: Scene,
  questions: readonly Question[],
): Promise<{ readonly problems: readonly string[]; readonly seen: ReadonlySet<string> }> {
  const backends = allBackends(scene);
  const seen = new Set<string>();
  const problems = await Promise.all(
    everywhere(scene).map(async (vantage) => {
      const all = await askFrom(scene, vantage, questions);
      for (const { name } of all.flatMap(({ answers }) => answers)) seen.add(name);
      return questions.flatMap((question, index) =>
        reachProblems(vantage.label, question, all[index] ?? nobody, backends),
      );
    }),
  );
  return { problems: problems.flat(), seen };
}

async function schedulesEvenly(scene: Scene): Promise<boolean> {
  const { mode, scheduler } = await statusOf(scene, scene.nodes[0].daemon);
  return mode === "ipvs" && evenSchedulers.has(scheduler);
}

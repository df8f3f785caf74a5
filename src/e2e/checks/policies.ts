/** Traffic policies, headless Services and topology hints: which backends a node uses. */
import { pathOf } from "../../api/decode/fields.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { Daemon } from "../daemon-pod.ts";
import { listOf } from "../daemon-pod.ts";
import { servicePort } from "../objects.ts";
import { judged, notApplicable, type Outcome } from "../outcome.ts";
import type { Answers, Question } from "../pod/conversation.ts";
import {
  askFrom,
  clusterIps,
  hostVantage,
  nodeAddress,
  nodePort,
  outputOf,
  podVantage,
  runOnNode,
  type Scene,
  type Vantage,
} from "../scene.ts";
import { reachProblems, silenceProblems } from "./answers.ts";

const attempts = 4;
const oneNode = "the test uses one node";

export async function internalPolicy(scene: Scene): Promise<Outcome> {
  const [address = ""] = clusterIps(scene, "internal");
  const [first, second] = scene.nodes;
  const question = tcp(address, servicePort, attempts);
  const problems = await scene.patience.problemsOf(async () => [
    ...reachProblems(
      podVantage(first).label,
      question,
      await askOnce(scene, podVantage(first), question),
      first.backends,
    ),
    ...(second === undefined ? [] : await silence(scene, podVantage(second), address, servicePort)),
  ]);
  const elsewhere = second === undefined ? oneNode : `nobody answers on ${second.name}`;
  return judged(problems, `backends of ${first.name} answer there; ${elsewhere}`);
}

/** The node of the backends answers with the client's address kept; another node does not answer at all. */
export async function externalPolicy(scene: Scene): Promise<Outcome> {
  const [first, second] = scene.nodes;
  if (second === undefined) return notApplicable(oneNode);
  const port = nodePort(scene, "external");
  const question = tcp(nodeAddress(scene, "external", first), port, attempts);
  const outside = hostVantage(second);
  const problems = await scene.patience.problemsOf(async () => {
    const answers = await askOnce(scene, outside, question);
    const hidden = answers.answers.filter(({ from }) => !second.addresses.includes(from));
    return [
      ...reachProblems(outside.label, question, answers, first.backends),
      ...hidden.slice(0, 1).map(({ from }) => `${outside.label} was seen as ${from}`),
      ...(await silence(scene, hostVantage(first), nodeAddress(scene, "external", second), port)),
    ];
  });
  return judged(
    problems,
    `${first.name} answers and sees the client's address; ${second.name}, without backends, does not answer`,
  );
}

export async function headless(scene: Scene): Promise<Outcome> {
  const problems = await scene.patience.problemsOf(async () => {
    const found = await Promise.all(
      scene.nodes.map(async ({ name, daemon }) => {
        const served = await servedPorts(scene, daemon, scene.namespace);
        if (!served.has("web")) return [`kube-ipvs on ${name} does not know Service web`];
        return served.has("headless") ? [`${name} serves the headless Service`] : [];
      }),
    );
    return found.flat();
  });
  return judged(problems, "no virtual server on any node");
}

export async function hints(scene: Scene): Promise<Outcome> {
  const [first] = scene.nodes;
  if (first.zone === undefined)
    return notApplicable(`node ${first.name} has no label topology.kubernetes.io/zone`);
  const [address = ""] = clusterIps(scene, "hints");
  const question = tcp(address, servicePort, 2 * attempts);
  const vantage = podVantage(first);
  const problems = await scene.patience.problemsOf(async () =>
    reachProblems(
      vantage.label,
      question,
      await askOnce(scene, vantage, question),
      first.backends.slice(0, 1),
    ),
  );
  return judged(problems, `zone ${first.zone} uses the endpoint that is meant for it alone`);
}

/** Names of the Services of a namespace that a node serves. */
export async function servedPorts(
  scene: Pick<Scene, "shell">,
  daemon: Daemon,
  namespace: string,
): Promise<ReadonlySet<string>> {
  const result = await runOnNode(scene, daemon, [
    "services",
    `--namespace=${namespace}`,
    "--output=json",
  ]);
  const text = outputOf(result, `kube-ipvs on ${daemon.nodeName}`);
  return new Set(
    listOf(pathOf(parseJson(text), "items")).map((row) => String(pathOf(row, "name"))),
  );
}

function tcp(address: string, port: number, count: number): Question {
  return { protocol: "TCP", address, port, count };
}

async function askOnce(scene: Scene, vantage: Vantage, question: Question): Promise<Answers> {
  const [answers] = await askFrom(scene, vantage, [question]);
  return answers ?? { answers: [], errors: [] };
}

async function silence(
  scene: Scene,
  vantage: Vantage,
  address: string,
  port: number,
): Promise<readonly string[]> {
  const question = tcp(address, port, 1);
  return silenceProblems(vantage.label, question, await askOnce(scene, vantage, question));
}

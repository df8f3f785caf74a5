/** Traffic policies and topology hints: which backends a node uses. Pure. */
import { servicePort } from "../objects.ts";
import { notApplicable, type Outcome } from "../outcome.ts";
import type { Answers } from "../pod/conversation.ts";
import {
  clusterIps,
  hostVantage,
  nodeAddress,
  nodePort,
  podVantage,
  type Scene,
  type TestNode,
} from "../scene.ts";
import { reached, silent, tcp } from "./answers.ts";
import type { TrafficPlan } from "./traffic.ts";

const attempts = 4;
const oneNode = "the test uses one node";

export function internalPolicy(scene: Scene): TrafficPlan {
  const [address = ""] = clusterIps(scene, "internal");
  const [first, second] = scene.nodes;
  const inside = reached(podVantage(first), tcp(address, servicePort, attempts), first.backends);
  if (second === undefined)
    return { probes: [inside], detail: `backends of ${first.name} answer; ${oneNode}` };
  return {
    probes: [inside, silent(podVantage(second), tcp(address, servicePort, 1))],
    detail: `backends of ${first.name} answer there; nobody answers on ${second.name}`,
  };
}

/** The node of the backends answers with the client's address kept; another node does not answer at all. */
export function externalPolicy(scene: Scene): TrafficPlan | Outcome {
  const [first, second] = scene.nodes;
  if (second === undefined) return notApplicable(oneNode);
  const port = nodePort(scene, "external");
  const outside = hostVantage(second);
  const question = tcp(nodeAddress(scene, "external", first), port, attempts);
  const inside = reached(outside, question, first.backends);
  return {
    probes: [
      {
        ...inside,
        problemsOf: (answers) => [
          ...inside.problemsOf(answers),
          ...hiddenProblems(second, answers),
        ],
      },
      silent(hostVantage(first), tcp(nodeAddress(scene, "external", second), port, 1)),
    ],
    detail: `${first.name} answers and sees the client's address; ${second.name}, without backends, does not answer`,
  };
}

export function hints(scene: Scene): TrafficPlan | Outcome {
  const [first] = scene.nodes;
  if (first.zone === undefined)
    return notApplicable(`node ${first.name} has no label topology.kubernetes.io/zone`);
  const [address = ""] = clusterIps(scene, "hints");
  const question = tcp(address, servicePort, 2 * attempts);
  return {
    probes: [reached(podVantage(first), question, first.backends.slice(0, 1))],
    detail: `zone ${first.zone} uses the endpoint that is meant for it alone`,
  };
}

/** The node's address is to be seen, not that of the node that it asked. */
function hiddenProblems({ name, addresses }: TestNode, { answers }: Answers): readonly string[] {
  const hidden = answers.find(({ from }) => !addresses.includes(from));
  return hidden === undefined ? [] : [`node ${name} was seen as ${hidden.from}`];
}

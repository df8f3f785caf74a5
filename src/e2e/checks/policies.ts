/** Checks traffic policies and topology hints. */
import { servicePort } from "../objects.ts";
import { notApplicable, type Outcome } from "../outcome.ts";
import { clusterIps, nodeAddress, nodePort, type Scene } from "../scene.ts";
import { reach, silence, tcp } from "./answers.ts";

const attempts = 4;
const oneNode = "the test uses one node";

export async function internalPolicy(scene: Scene): Promise<Outcome> {
  const [address = ""] = clusterIps(scene, "internal");
  const [first, second] = scene.nodes;
  const elsewhere = second === undefined ? oneNode : `no backend answers on ${second.name}`;
  const detail = `backends of ${first.name} answer there; ${elsewhere}`;
  return await scene.patience.outcomeOf(detail, async () => {
    const [inside, outside] = await Promise.all([
      reach(first.fromPod, tcp(address, servicePort, attempts), first.backends),
      second && silence(second.fromPod, tcp(address, servicePort, 1)),
    ]);
    return [...inside.problems, ...(outside?.problems ?? [])];
  });
}

/** The backends' node keeps the client's address. A node without backends does not answer. */
export async function externalPolicy(scene: Scene): Promise<Outcome> {
  const [first, second] = scene.nodes;
  if (second === undefined) return notApplicable(oneNode);
  const portOf = (node: typeof first, count: number): ReturnType<typeof tcp> =>
    tcp(nodeAddress(scene, "external", node), nodePort(scene, "external"), count);
  const detail = `${first.name} answers and sees the client's address; ${second.name}, without backends, does not answer`;
  return await scene.patience.outcomeOf(detail, async () => {
    const [inside, outside] = await Promise.all([
      reach(second.fromHost, portOf(first, attempts), first.backends),
      silence(first.fromHost, portOf(second, 1)),
    ]);
    // The backend must see the client's address, not that of the node that received the packet.
    const hidden = inside.answers.find(({ from }) => !second.addresses.includes(from));
    const hiding =
      hidden === undefined
        ? []
        : [`a backend saw ${hidden.from} instead of an address of node ${second.name}`];
    return [...inside.problems, ...hiding, ...outside.problems];
  });
}

export async function hints(scene: Scene): Promise<Outcome> {
  const [{ name, zone, fromPod, backends }] = scene.nodes;
  if (zone === undefined)
    return notApplicable(`node ${name} has no label topology.kubernetes.io/zone`);
  const [address = ""] = clusterIps(scene, "hints");
  const question = tcp(address, servicePort, 2 * attempts);
  const detail = `zone ${zone} uses only the endpoint with a hint for it`;
  return await scene.patience.outcomeOf(
    detail,
    async () => (await reach(fromPod, question, backends.slice(0, 1))).problems,
  );
}

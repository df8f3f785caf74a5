/** What changes under open connections: an endpoint leaves, and the daemon is restarted. */
import { PatchStrategy, setHeaderOptions } from "@kubernetes/client-node";
import { parseJson } from "../../base/parse-json.ts";
import { unlessMissing } from "../cluster/cluster-api.ts";
import type { CommandResult, PodPlace } from "../cluster/exec-shell.ts";
import type { Daemon } from "../daemon-pod.ts";
import { program, roles, servicePort } from "../objects.ts";
import { judged, type Outcome } from "../outcome.ts";
import type { HeldConnection } from "../pod/conversation.ts";
import {
  allBackends,
  askFrom,
  clusterIps,
  outputOf,
  podVantage,
  runOnNode,
  type Scene,
} from "../scene.ts";
import { tcp } from "./answers.ts";

const attempts = 6;
/** Long enough for several pings. */
const aWhileMs = 1_500;

/** An endpoint that leaves keeps its connection and gets no new one. */
export async function draining(scene: Scene): Promise<Outcome> {
  const [first] = scene.nodes;
  const [address = ""] = clusterIps(scene, "draining");
  const held = scene.shell.start(first.client, holdCommand(address));
  const { name } = parseJson(await held.firstLine()) as HeldConnection;
  await leave(scene, name);
  const strays = await scene.patience.problemsOf(async () => {
    const names = await namesAt(scene, address);
    if (names.length === 0) return ["new connections reach nobody"];
    return names.includes(name) ? [`new connections reach ${name}`] : [];
  });
  const drains = await drainNames(scene, first.daemon);
  await scene.patience.pause(aWhileMs);
  const connection = await endOf(held.stop(), first.client);
  const problems = [...strays, ...connectionProblems(connection), ...drainProblems(drains, name)];
  return judged(problems, `${name} left: its connection stayed open, new ones went elsewhere`);

  function drainProblems(listed: readonly string[] | undefined, who: string): readonly string[] {
    const addresses = allBackends(scene).find((one) => one.name === who)?.addresses ?? [];
    const isListed = listed === undefined || addresses.some((one) => listed.includes(one));
    return isListed ? [] : [`kube-ipvs drains on ${first.name} does not list ${who}`];
  }
}

/** A daemon that is replaced breaks no connection, and the new one serves as the old one did. */
export async function restart(scene: Scene): Promise<Outcome> {
  const [first] = scene.nodes;
  const [address = ""] = clusterIps(scene, "web");
  const held = scene.shell.start(first.client, holdCommand(address));
  await held.firstLine();
  const { place, uid } = first.daemon;
  const { namespace, pod } = place;
  await unlessMissing(scene.api.core.deleteNamespacedPod({ name: pod, namespace }));
  await scene.patience.until(`another ready daemon on ${first.name}`, async () => {
    const daemons = await scene.listDaemons();
    return daemons.find((one) => one.nodeName === first.name && one.uid !== uid && one.isReady);
  });
  const names = await namesAt(scene, address);
  const connection = await endOf(held.stop(), first.client);
  const lost = attempts - names.length;
  const problems = [
    ...connectionProblems(connection),
    ...(lost === 0 ? [] : [`${lost} of ${attempts} new connections failed`]),
  ];
  return judged(
    problems,
    `${first.name}: an open connection lasted, ${attempts} new ones were made`,
  );
}

function holdCommand(address: string): readonly string[] {
  return [program, "hold", address, String(servicePort)];
}

async function namesAt(scene: Scene, address: string): Promise<readonly string[]> {
  const question = tcp(address, servicePort, attempts);
  const [found] = await askFrom(scene, podVantage(scene.nodes[0]), [question]);
  return (found?.answers ?? []).map(({ name }) => name);
}

/** Takes the label off that the Service selects by. */
async function leave({ api, namespace }: Scene, name: string): Promise<void> {
  const labels = Object.fromEntries(Object.keys(roles.draining).map((label) => [label, null]));
  const body = { metadata: { labels } };
  const mergePatch = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);
  await api.core.patchNamespacedPod({ name, namespace, body }, mergePatch);
}

/** Addresses of real servers that drain; undefined: the mode has no such list. */
async function drainNames(scene: Scene, daemon: Daemon): Promise<readonly string[] | undefined> {
  if (scene.firstStatus.mode !== "ipvs") return undefined;
  const result = await runOnNode(scene, daemon, ["drains", "--output=json"]);
  const { items } = parseJson(outputOf(result, `kube-ipvs on ${daemon.nodeName}`)) as {
    readonly items: readonly { readonly realServer: { readonly address: string } }[];
  };
  return items.map(({ realServer }) => realServer.address);
}

async function endOf(stopped: Promise<CommandResult>, { pod }: PodPlace): Promise<HeldConnection> {
  const lines = outputOf(await stopped, `pod ${pod}`)
    .trim()
    .split("\n");
  return parseJson(lines.at(-1) ?? "") as HeldConnection;
}

function connectionProblems({ ending, pings, name }: HeldConnection): readonly string[] {
  if (ending !== "open") return [`the open connection to ${name} ended: ${ending}`];
  return pings > 0 ? [] : [`the open connection to ${name} carried nothing`];
}

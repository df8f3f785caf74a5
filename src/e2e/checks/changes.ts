/** Checks with open connections: an endpoint is removed, and the daemon is restarted. */
import { PatchStrategy, setHeaderOptions } from "@kubernetes/client-node";
import type { Answers } from "../../answer/answers.ts";
import { parseJson } from "../../base/parse-json.ts";
import { unlessMissing } from "../cluster/cluster-api.ts";
import { outputOf, type RunningCommand } from "../cluster/exec-shell.ts";
import { program, roles, type ServiceRole, servicePort } from "../objects.ts";
import { judged, type Outcome } from "../outcome.ts";
import type { HeldConnection } from "../pod/conversation.ts";
import { allBackends, answerOf, clusterIps, daemonOn, type Scene } from "../scene.ts";
import { tcp } from "./answers.ts";

const attempts = 6;
/** How long to observe an open connection: long enough for several pings. */
const aWhileMs = 1_500;

/** A removed endpoint keeps its connection and gets no new ones. */
export async function draining(scene: Scene): Promise<Outcome> {
  const { held, name } = await hold(scene, "draining");
  await leave(scene, name);
  const strays = await scene.patience.problemsOf(async () => {
    const names = await namesAt(scene, "draining");
    if (names.length === 0) return ["new connections reach no backend"];
    return names.includes(name) ? [`new connections reach ${name}`] : [];
  });
  const unlisted = await drainProblems(scene, name);
  await scene.patience.pause(aWhileMs);
  const problems = [...strays, ...(await connectionProblems(held)), ...unlisted];
  return judged(
    problems,
    `${name} was removed: its connection stayed open, and new connections reached other backends`,
  );
}

/** Replacing a daemon breaks no connections, and new ones work with the new daemon. */
export async function restart(scene: Scene): Promise<Outcome> {
  const [first] = scene.nodes;
  const { held } = await hold(scene, "web");
  const { place, uid } = await daemonOn(scene, first.name);
  const { namespace, pod } = place;
  await unlessMissing(scene.api.core.deleteNamespacedPod({ name: pod, namespace }));
  await scene.patience.until(`another ready daemon on ${first.name}`, async () => {
    const daemons = await scene.listDaemons();
    return daemons.find((one) => one.nodeName === first.name && one.uid !== uid && one.isReady);
  });
  const lost = attempts - (await namesAt(scene, "web")).length;
  const problems = [
    ...(await connectionProblems(held)),
    ...(lost === 0 ? [] : [`${lost} of ${attempts} new connections failed`]),
  ];
  return judged(
    problems,
    `${first.name}: an open connection stayed open, and ${attempts} new ones succeeded`,
  );
}

/** Opens a connection from the first node's client and keeps it active. Resolves when a backend has answered. */
async function hold(
  scene: Scene,
  role: ServiceRole,
): Promise<{ readonly held: RunningCommand; readonly name: string }> {
  const [address = ""] = clusterIps(scene, role);
  const command = [program, "hold", address, String(servicePort)];
  const held = scene.shell.start(scene.nodes[0].client, command);
  const { name } = parseJson(await held.firstLine()) as Pick<HeldConnection, "name">;
  return { held, name };
}

async function namesAt(scene: Scene, role: ServiceRole): Promise<readonly string[]> {
  const [address = ""] = clusterIps(scene, role);
  const { answers } = await scene.nodes[0].fromPod.ask(tcp(address, servicePort, attempts));
  return answers.map(({ name }) => name);
}

/** Removes from a backend the label that the Service selects. */
async function leave({ api, namespace }: Scene, name: string): Promise<void> {
  const labels = Object.fromEntries(Object.keys(roles.draining).map((label) => [label, null]));
  const body = { metadata: { labels } };
  const mergePatch = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);
  await api.core.patchNamespacedPod({ name, namespace, body }, mergePatch);
}

/** Returns problems in the list of drains, which exists only in IPVS mode. */
async function drainProblems(scene: Scene, backend: string): Promise<readonly string[]> {
  if (scene.firstStatus.mode !== "ipvs") return [];
  const daemon = await daemonOn(scene, scene.nodes[0].name);
  const { items } = await answerOf<Answers["DrainList"]>(scene.shell, daemon, "drains");
  const addresses = allBackends(scene).find(({ name }) => name === backend)?.addresses ?? [];
  const isListed = items.some(({ realServer }) => addresses.includes(realServer.address));
  return isListed ? [] : [`kube-ipvs drains on ${daemon.nodeName} does not list ${backend}`];
}

/** Ends the connection and returns its problems. */
async function connectionProblems(held: RunningCommand): Promise<readonly string[]> {
  const output = outputOf(await held.stop(), "the client's pod");
  const lines = output.trim().split("\n");
  const { ending, pings, name } = parseJson(lines.at(-1) ?? "") as HeldConnection;
  if (ending !== "open") return [`the open connection to ${name} broke: ${ending}`];
  return pings > 0 ? [] : [`the open connection to ${name} transferred no data`];
}

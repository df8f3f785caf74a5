/** Checks the daemons' health, the kernel state, and the Services that they serve. */
import type { Answers, Status } from "../../answer/answers.ts";
import type { Daemon } from "../daemon-pod.ts";
import { notApplicable, type Outcome } from "../outcome.ts";
import { answerOf, judgeDaemons, type Scene } from "../scene.ts";

export async function health(scene: Scene): Promise<Outcome> {
  return await judgeDaemons(scene, "kube-ipvs is ready and OK", async (daemon) => {
    if (!daemon.isReady) return [`the daemon on ${daemon.nodeName} is not ready`];
    const { verdict, summary } = await answerOf<Status>(scene.shell, daemon, "status");
    return verdict === "OK" ? [] : [`${daemon.nodeName}: ${summary}`];
  });
}

export async function kernelAsPlanned(scene: Scene): Promise<Outcome> {
  const { mode } = scene.firstStatus;
  if (mode !== "ipvs")
    return notApplicable(`the check requires IPVS mode, but the mode is ${mode}`);
  return await judgeDaemons(scene, "kube-ipvs plan finds nothing to change", async (daemon) => {
    const plan = await answerOf<Plan>(scene.shell, daemon, "plan");
    const [first] = plan.changes;
    if (first === undefined) return [];
    const text = JSON.stringify(first);
    return [`${daemon.nodeName}: ${plan.changes.length} changes, the first of which is ${text}`];
  });
}

interface Plan {
  readonly changes: readonly unknown[];
}

export async function headless(scene: Scene): Promise<Outcome> {
  return await judgeDaemons(scene, "no virtual server", async (daemon) => {
    const served = await servedServices(scene, daemon);
    if (!served.has("web")) return [`kube-ipvs on ${daemon.nodeName} does not know Service web`];
    return served.has("headless") ? [`${daemon.nodeName} serves the headless Service`] : [];
  });
}

export async function nothingLeft(scene: Scene): Promise<Outcome> {
  const promise = `namespace ${scene.namespace} is gone, and none of its Services is served`;
  return await judgeDaemons(scene, promise, async (daemon) => {
    const served = await servedServices(scene, daemon);
    return served.size === 0 ? [] : [`${daemon.nodeName} still serves ${[...served].join(", ")}`];
  });
}

/** Names of the Services in the test's namespace that a node serves. */
async function servedServices(
  { shell, namespace }: Scene,
  daemon: Daemon,
): Promise<ReadonlySet<string>> {
  const flag = `--namespace=${namespace}`;
  const list = await answerOf<Answers["ServiceList"]>(shell, daemon, "services", flag);
  return new Set(list.items.map(({ name }) => name));
}

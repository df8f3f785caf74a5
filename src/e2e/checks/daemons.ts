/** The daemons themselves: on each node, healthy, and the kernel as planned. */

import { counted } from "../../base/counted.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { Daemon } from "../daemon-pod.ts";
import { judged, notApplicable, type Outcome } from "../outcome.ts";
import { outputOf, runOnNode, type Scene, statusOf } from "../scene.ts";

export async function health(scene: Scene): Promise<Outcome> {
  const problems = await scene.patience.problemsOfEach(scene.listDaemons, (daemon) =>
    healthProblems(scene, daemon),
  );
  const nodes = counted(scene.daemons.length, "node");
  return judged(problems, `kube-ipvs is ready and OK on ${nodes}`);
}

async function healthProblems(scene: Scene, daemon: Daemon): Promise<readonly string[]> {
  if (!daemon.isReady) return [`the daemon on ${daemon.nodeName} is not ready`];
  const { verdict, summary } = await statusOf(scene, daemon);
  return verdict === "OK" ? [] : [`${daemon.nodeName}: ${summary}`];
}

/** `kube-ipvs plan` on each node: 0: the kernel is as planned, 2: it is not, 1: it cannot be worked out. */
export async function kernelAsPlanned(scene: Scene): Promise<Outcome> {
  const daemons = await scene.listDaemons();
  const { mode } = scene.firstStatus;
  if (mode !== "ipvs") return notApplicable(`mode ${mode} has no plan`);
  const problems = await scene.patience.problemsOfEach(
    async () => daemons,
    (daemon) => planProblems(scene, daemon),
  );
  const nodes = counted(daemons.length, "node");
  return judged(problems, `kube-ipvs plan finds nothing to change on ${nodes}`);
}

async function planProblems(scene: Scene, daemon: Daemon): Promise<readonly string[]> {
  const result = await runOnNode(scene, daemon, ["plan", "--output=json"]);
  if (result.exitCode !== 2) {
    outputOf(result, `kube-ipvs plan on ${daemon.nodeName}`);
    return [];
  }
  const { changes } = parseJson(result.out) as { readonly changes: readonly unknown[] };
  const [first] = changes;
  return [`${daemon.nodeName}: ${changes.length} changes, the first ${JSON.stringify(first)}`];
}

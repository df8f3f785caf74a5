import { parseJson } from "../../base/parse-json.ts";
import type { Daemon } from "../daemon-pod.ts";
import { judged, type Outcome } from "../outcome.ts";
import { outputOf, runOnNode, type Scene } from "../scene.ts";

export async function headless(scene: Scene): Promise<Outcome> {
  const problems = await scene.patience.problemsOfEach(
    async () => scene.nodes,
    async ({ name, daemon }) => {
      const served = await servedServices(scene, daemon, scene.namespace);
      if (!served.has("web")) return [`kube-ipvs on ${name} does not know Service web`];
      return served.has("headless") ? [`${name} serves the headless Service`] : [];
    },
  );
  return judged(problems, "no virtual server on any node");
}

/** Names of the Services of a namespace that a node serves. */
export async function servedServices(
  scene: Pick<Scene, "shell">,
  daemon: Daemon,
  namespace: string,
): Promise<ReadonlySet<string>> {
  const flags = [`--namespace=${namespace}`, "--output=json"];
  const result = await runOnNode(scene, daemon, ["services", ...flags]);
  const text = outputOf(result, `kube-ipvs on ${daemon.nodeName}`);
  const { items } = parseJson(text) as { readonly items: readonly { readonly name: string }[] };
  return new Set(items.map(({ name }) => name));
}

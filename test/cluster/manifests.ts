/** Checks with a dry run whether the cluster's API server accepts the objects that operators install. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chartPath, presetValues, renderChart } from "../deploy/chart.ts";
import { type Cluster, tryKubectl } from "./cluster.ts";

const manifests: string = join(chartPath, "../../manifests");

export interface ManifestResult {
  /** The file in `deploy`. */
  readonly name: string;
  /** The API server's message. Empty if it accepts every object. */
  readonly failure: string;
}

/**
 * Tries every manifest of `deploy/manifests`, and the chart with each of its presets. Removes the installed DaemonSet
 * first.
 */
export async function tryManifests(cluster: Cluster): Promise<readonly ManifestResult[]> {
  const files = readdirSync(manifests).filter((name) => name.endsWith(".yaml"));
  const presets = readdirSync(join(chartPath, "presets"));
  const paths = [
    ...files.map((name) => ({ name: `manifests/${name}`, path: join(manifests, name) })),
    ...presets.map((name) => ({
      name: `helm/kube-ipvs/presets/${name}`,
      path: renderedPreset(cluster, name),
    })),
  ];
  // A DaemonSet's selector is immutable, and the installed one has the selector that specs expect, not the manifests'.
  await tryKubectl(cluster, "-n", "kube-system", "delete", "daemonset", "kube-ipvs");
  const results: ManifestResult[] = [];
  for (const { name, path } of paths) {
    const { failure } = await tryKubectl(
      cluster,
      ...["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", path],
    );
    results.push({ name, failure: failure.replace(/\s+/g, " ") });
  }
  return results;
}

function renderedPreset({ folder }: Cluster, name: string): string {
  const { objects, error } = renderChart(presetValues(name));
  if (objects === undefined) throw new Error(`cannot render the chart with ${name}: ${error}`);
  const path = join(folder, `preset-${name}.json`);
  writeFileSync(path, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  return path;
}

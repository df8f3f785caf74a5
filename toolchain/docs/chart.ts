/** The README of the Helm chart: a row for each value, described by its comment in values.yaml. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isMap, isNode, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";
import { code, documentOf, table } from "./markdown.ts";

const chart: string = join(import.meta.dirname, "../../deploy/helm/kube-ipvs");

interface Value {
  readonly path: string;
  readonly description: string;
  readonly byDefault: string;
}

export function chartReadme(): string {
  const { contents } = parseDocument(readFileSync(join(chart, "values.yaml"), "utf8"));
  const values = isMap(contents) ? valuesIn(contents, "") : [];
  const rows = values.map(({ path, description, byDefault }) => [
    code(path),
    description,
    code(byDefault),
  ]);
  return documentOf([introduction, table(["value", "description", "default"], rows)]);
}

const introduction: readonly string[] = `# The chart kube-ipvs

\`\`\`sh
helm install kube-ipvs deploy/helm/kube-ipvs --namespace kube-system \\
  --set image.repository=REPOSITORY/kube-ipvs \\
  --set apiServer=https://10.0.0.1:6443 --set config.clusterCIDR=10.244.0.0/16
\`\`\`

\`presets/\` has values for kubeadm, kubespray, k3s, RKE2, EKS and Talos, each with a note about what was
tested. Pods wait while kube-proxy is running on their node ([roll out](../../../docs/migrate.md#roll-out)).
\`helm test\` runs the [acceptance test](../../../docs/acceptance.md). \`values.schema.json\` rejects
misspelled and invalid values, including field names under \`config\`. \`make docs\` writes this page
from \`values.yaml\`.`.split("\n");

function valuesIn(map: YAMLMap, prefix: string): readonly Value[] {
  return map.items.flatMap((pair, index) => {
    const path = `${prefix}${keyOf(pair)}`;
    const comment = commentOf(map, pair, index);
    const { value } = pair;
    if (isMap(value) && groups.has(path)) {
      const own = comment === "" ? [] : [{ path, description: comment, byDefault: "" }];
      return [...own, ...valuesIn(value, `${path}.`)];
    }
    const byDefault = JSON.stringify(isNode(value) ? value.toJSON() : value);
    return [{ path, description: comment, byDefault }];
  });
}

/** Groups of the chart's own fields. Other maps are Kubernetes objects. */
const groups: ReadonlySet<string> = new Set(
  "image config serviceAccount rbac podMonitor serviceMonitor prometheusRule dashboard endpointController tests".split(
    " ",
  ),
);

function keyOf({ key }: Pair): string {
  return isScalar(key) ? String(key.value) : String(key);
}

/** The yaml package attaches the comment before a map's first key to the map. */
function commentOf(map: YAMLMap, { key }: Pair, index: number): string {
  const before = isScalar(key) ? key.commentBefore : undefined;
  const text = before ?? (index === 0 ? map.commentBefore : undefined) ?? "";
  return text
    .split("\n")
    .map((line) => line.trim())
    .join(" ")
    .trim();
}

/** Renders the chart with Helm's template engine (chart-renderer/). */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import type { Manifest } from "../support/container/pod.ts";

const project: string = join(import.meta.dirname, "../..");
export const chartPath: string = join(project, "deploy/helm/kube-ipvs");
const renderer: string = join(project, "build/test/chart-renderer");

export type Values = Readonly<Record<string, unknown>>;

/** The minimum values with an existing ConfigMap. */
export const leastWithConfigMap: Values = {
  image: { repository: "registry.example/kube-ipvs" },
  existingConfigMap: "kube-proxy",
};

/** The minimum values without an existing ConfigMap. */
export const leastValues: Values = {
  image: { repository: "registry.example/kube-ipvs" },
  apiServer: "https://10.0.0.1:6443",
  config: { clusterCIDR: "10.244.0.0/16" },
};

/** Enables every part that is disabled by default. */
export const everything: Values = {
  ...leastValues,
  imagePullSecrets: [{ name: "pull" }],
  podLabels: { team: "network" },
  podAnnotations: { note: "text" },
  extraArgs: ["--v=2"],
  extraEnv: [{ name: "EXTRA", value: "1" }],
  extraVolumes: [{ name: "extra", emptyDir: {} }],
  extraVolumeMounts: [{ name: "extra", mountPath: "/extra" }],
  commonLabels: { part: "network" },
  annotations: { note: "text" },
  revisionHistoryLimit: 3,
  terminationGracePeriodSeconds: 5,
  initResources: { requests: { cpu: "10m" } },
  extraPodSpec: { runtimeClassName: "runc" },
  extraObjects: [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "extra" } }],
  removeNotReadyTaint: true,
  serviceAccount: { annotations: { note: "text" } },
  endpointController: { enabled: true, podSpec: { tolerations: [{ operator: "Exists" }] } },
  serviceMonitor: {
    enabled: true,
    additionalLabels: { release: "prometheus" },
    scrapeTimeout: "5s",
    relabelings: [{ action: "labeldrop", regex: "pod" }],
    metricRelabelings: [{ action: "drop", sourceLabels: ["__name__"], regex: "nodejs_.*" }],
  },
  prometheusRule: { enabled: true, additionalLabels: { release: "prometheus" } },
  dashboard: { enabled: true, annotations: { folder: "network" } },
};

/** A preset with the minimum additional values. */
export function presetValues(name: string): Values {
  const preset = readChartFile(`presets/${name}`) as Values;
  return { image: leastValues["image"], apiServer: leastValues["apiServer"], ...preset };
}

/** Parses a file of the chart. */
export function readChartFile(name: string): unknown {
  return parse(readFileSync(join(chartPath, name), "utf8"));
}

export interface Rendering {
  /** Undefined if rendering failed. */
  readonly objects?: readonly Manifest[];
  /** The objects that `helm test` applies. */
  readonly tests?: readonly Manifest[];
  readonly text: string;
  readonly error: string;
}

/** Renders all templates. `values` override the chart's. `cluster` contains existing objects by KIND/NAME. */
export function renderChart(
  values: Values,
  release = "kube-ipvs",
  cluster: Values = {},
  chart: string = chartPath,
): Rendering {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-chart-"));
  const file = join(folder, "values.yaml");
  writeFileSync(file, JSON.stringify(values));
  const existing = join(folder, "cluster.yaml");
  writeFileSync(existing, JSON.stringify(cluster));
  const args = [chart, file, release, existing];
  const { status, stdout, stderr } = spawnSync(renderer, args, { encoding: "utf8" });
  rmSync(folder, { recursive: true });
  if (status !== 0) return { text: stdout, error: stderr || `the renderer exited with ${status}` };
  const { tests = [], objects = [] } = Object.groupBy(objectsIn(stdout), (object) =>
    JSON.stringify(object).includes('"helm.sh/hook":"test"') ? "tests" : "objects",
  );
  return { objects, tests, text: stdout, error: "" };
}

/** Skips NOTES.txt, which is not an object. */
function objectsIn(text: string): readonly Manifest[] {
  const parts = text.split(/^---$/m).filter((part) => !part.includes("# Source: NOTES.txt"));
  return parts
    .flatMap((part) => parseAllDocuments(part))
    .map((document) => {
      if ("errors" in document && document.errors.length > 0) throw document.errors[0];
      return document.toJS() as Manifest | null;
    })
    .filter((object) => object !== null);
}

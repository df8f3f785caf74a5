/** Validates values as Helm does, and renders the chart with Helm's template engine (chart-renderer/). */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv, type ValidateFunction } from "ajv";
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
export function readChartFile(name: string, chart: string = chartPath): unknown {
  return parse(readFileSync(join(chart, name), "utf8"));
}

const validators = new Map<string, ValidateFunction>();

function validatorOf(chart: string): ValidateFunction {
  const known = validators.get(chart);
  if (known !== undefined) return known;
  const schema = readChartFile("values.schema.json", chart) as object;
  const validate = new Ajv({ allErrors: true, strictTypes: false }).compile(schema);
  validators.set(chart, validate);
  return validate;
}

/** Paths of the values that Helm rejects, because values.schema.json does not allow them. */
export function problemsOf(values: Values, chart: string = chartPath): readonly string[] {
  const validate = validatorOf(chart);
  validate(merged(readChartFile("values.yaml", chart) as Values, values));
  return (validate.errors ?? []).map(({ instancePath }) => instancePath);
}

/** Merges values as Helm does: maps are merged, and null removes a default. */
function merged(defaults: Values, values: Values): Values {
  const result = new Map(Object.entries(defaults));
  for (const [name, value] of Object.entries(values)) {
    const before = result.get(name);
    if (value === null) result.delete(name);
    else result.set(name, isMap(before) && isMap(value) ? merged(before, value) : value);
  }
  return Object.fromEntries(result);
}

function isMap(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export interface Rendering {
  /** Undefined if rendering failed. */
  readonly objects?: readonly Manifest[];
  /** The objects that `helm test` applies. */
  readonly tests?: readonly Manifest[];
  readonly text: string;
  readonly error: string;
}

/**
 * Renders all templates, unless the schema rejects the values. `values` override the chart's. `cluster` contains
 * existing objects by KIND/NAME.
 */
export function renderChart(
  values: Values,
  release = "kube-ipvs",
  cluster: Values = {},
  chart: string = chartPath,
): Rendering {
  const problems = problemsOf(values, chart);
  if (problems.length > 0)
    return { text: "", error: `values.schema.json rejects ${problems.join(", ") || "a name"}` };
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

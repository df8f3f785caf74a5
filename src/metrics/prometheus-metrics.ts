import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { bucketLists, type MetricRow, metricTable } from "./metric-table.ts";
import { registerProcessMetrics } from "./process-metrics.ts";

export interface BuildVersions {
  /** Version of kube-ipvs. */
  readonly version: string;
  /** Feature gates to expose. */
  readonly featureGates?: readonly FeatureGateState[];
}

/** A feature gate as Kubernetes components expose it. */
export interface FeatureGateState {
  readonly name: string;
  /** `ALPHA`, `BETA`, `DEPRECATED`, or empty for GA. */
  readonly stage: string;
  readonly isOn: boolean;
}

/** The metrics by table key. All methods are cheap and never throw. */
export type Metrics = {
  readonly [Key in keyof Table]: {
    readonly counter: CounterMetric<LabelsOf<Table[Key]>>;
    readonly gauge: GaugeMetric<LabelsOf<Table[Key]>>;
    readonly histogram: HistogramMetric<LabelsOf<Table[Key]>>;
  }[Table[Key]["type"]];
};

/** The first argument contains the label values if the metric has labels. `times` defaults to 1. */
interface CounterMetric<Labels extends readonly unknown[]> {
  inc(...args: readonly [...labels: Labels, times?: number]): void;
}

interface GaugeMetric<Labels extends readonly unknown[]> {
  set(...args: readonly [...labels: Labels, value: number]): void;
  /** Removes all series. */
  reset(): void;
}

/** Values are seconds or bytes. */
interface HistogramMetric<Labels extends readonly unknown[]> {
  observe(...args: readonly [...labels: Labels, value: number]): void;
}

type Table = typeof metricTable;

type LabelsOf<Row> = Row extends { readonly labels: readonly (infer Label extends string)[] }
  ? [labels: Readonly<Record<Label, string | number>>]
  : [];

/** The metrics and their text for a scrape. Each instance has its own registry, so tests are independent. */
export interface PrometheusMetrics extends Metrics {
  /** Returns all metrics in the Prometheus text format, version 0.0.4. */
  exposition(): Promise<string>;
  readonly contentType: string;
  /** Adds metrics as text, for tens of thousands of series that are created at each scrape. `read` must not reject. */
  addTextSource(read: () => Promise<string>): void;
}

export function prometheusMetrics({
  version,
  featureGates = [],
}: BuildVersions): PrometheusMetrics {
  const registry = new Registry();
  const textSources: (() => Promise<string>)[] = [];
  const metrics = register(registry);
  for (const { name, stage, isOn } of featureGates) {
    metrics.featureEnabled.set({ name, stage }, isOn ? 1 : 0);
  }
  metrics.ownBuildInfo.set({ version, node_version: process.version }, 1);
  registerProcessMetrics(registry);
  return {
    ...metrics,
    contentType: registry.contentType,
    exposition: async () => {
      const texts = [await registry.metrics()];
      for (const read of textSources) texts.push(await read());
      return texts.join("");
    },
    addTextSource: (read) => void textSources.push(read),
  };
}

/**
 * Exposes the API server's version as kubernetes_build_info. If the version were fixed, alerts of kubernetes-mixin
 * would report a mismatch in clusters with a different version.
 */
export function showServerVersion(
  { major, minor, gitVersion }: Readonly<Record<"major" | "minor" | "gitVersion", string>>,
  { buildInfo }: Pick<Metrics, "buildInfo">,
): void {
  buildInfo.reset();
  const platform = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;
  buildInfo.set({ major, minor, git_version: gitVersion, platform }, 1);
}

function register(registry: Registry): Metrics {
  const metrics = Object.entries(metricTable).map(([key, row]: [string, MetricRow]) => {
    const { name, help, type, labels = [], buckets = "sync" } = row;
    const definition = { name, help, labelNames: labels, registers: [registry] };
    if (type === "counter") return [key, new Counter(definition)];
    if (type === "gauge") return [key, new Gauge(definition)];
    return [key, new Histogram({ ...definition, buckets: [...bucketLists[buckets]] })];
  });
  return Object.fromEntries(metrics) as Metrics;
}

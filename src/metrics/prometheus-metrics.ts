import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { bucketLists, type MetricRow, metricTable } from "./metric-table.ts";
import { registerProcessMetrics } from "./process-metrics.ts";

export interface BuildVersions {
  /** Ours. */
  readonly version: string;
  /** Undefined if none is shown. */
  readonly featureGates?: readonly FeatureGateState[];
}

/** A feature gate as Kubernetes' components show it. */
export interface FeatureGateState {
  readonly name: string;
  /** `ALPHA`, `BETA`, `DEPRECATED`; empty: GA. */
  readonly stage: string;
  readonly isOn: boolean;
}

/** What the program counts and measures, by the keys of the table: each call is cheap, and none throws. */
export type Metrics = {
  readonly [Key in keyof Table]: {
    readonly counter: CounterMetric<LabelsOf<Table[Key]>>;
    readonly gauge: GaugeMetric<LabelsOf<Table[Key]>>;
    readonly histogram: HistogramMetric<LabelsOf<Table[Key]>>;
  }[Table[Key]["type"]];
};

/** Values of all labels first, where the metric has any; `times` is 1 where it is not given. */
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

/** What was counted, and its text for a scrape. Nothing global: tests make their own. */
export interface PrometheusMetrics extends Metrics {
  /** The Prometheus text form, version 0.0.4. */
  exposition(): Promise<string>;
  readonly contentType: string;
  /** More metrics, as text: tens of thousands of series that are made at the scrape. It must not reject. */
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

/** Of the API server, when it changes, too: a fixed one would be a mismatch to kubernetes-mixin in every other cluster. */
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

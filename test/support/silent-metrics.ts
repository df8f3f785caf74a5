import { metricTable } from "../../src/metrics/metric-table.ts";
import type { Metrics } from "../../src/metrics/prometheus-metrics.ts";

const silent = { inc() {}, set() {}, observe() {}, reset() {} };

/** Metrics that count nothing. */
export const silentMetrics: Metrics = Object.fromEntries(
  Object.keys(metricTable).map((key) => [key, silent]),
) as unknown as Metrics;

type Setter<Key extends keyof Metrics> = Extract<Metrics[Key], { set: unknown }>["set"];

/** Metrics with one gauge that passes its values to `set`. */
export function gaugeOf<Key extends keyof Metrics>(set: Setter<Key>): Metrics[Key] {
  return { ...silent, set } as unknown as Metrics[Key];
}

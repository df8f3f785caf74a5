/** The tables of docs/metrics.md: every metric, from the table that the program uses to register metrics. */
import { bucketLists, type MetricRow, metricTable } from "../../src/metrics/metric-table.ts";
import { processMetrics } from "../../src/metrics/process-metrics.ts";
import { trafficMetricRows } from "../../src/metrics/traffic-table.ts";
import { code, table, withTables } from "./markdown.ts";

const groups: readonly { readonly title: string; readonly isIn: (name: string) => boolean }[] = [
  { title: "kube-proxy metrics", isIn: (name) => name.startsWith("kubeproxy_") },
  { title: "kube-ipvs metrics", isIn: (name) => name.startsWith("kube_ipvs_") },
  { title: "API client", isIn: (name) => name.startsWith("rest_client_") },
  { title: "Release and feature gates", isIn: (name) => name.startsWith("kubernetes_") },
  { title: "Process", isIn: (name) => /^(?:process|nodejs)_/.test(name) },
];

export function metricsDocument(): string {
  const rows: readonly MetricRow[] = [
    ...Object.values(metricTable),
    ...trafficMetricRows,
    ...processMetrics,
  ];
  return withTables("docs/metrics.md", {
    ...Object.fromEntries(
      groups.map(({ title, isIn }) => [title, metricRows(rows.filter(({ name }) => isIn(name)))]),
    ),
    Buckets: table(["Buckets", "Upper bounds"], Object.entries(bucketLists).map(bucketRow)),
  });
}

function metricRows(rows: readonly MetricRow[]): readonly string[] {
  return table(
    ["Metric", "Type", "Labels", "Meaning"],
    rows.map(({ name, type, labels = [], help, buckets }) => [
      code(name),
      buckets === undefined ? type : `${type} (${buckets})`,
      labels.map(code).join(", "),
      help.replaceAll("<", "&lt;"),
    ]),
  );
}

const maxShown = 20;

function bucketRow([name, bounds]: readonly [string, readonly number[]]): readonly string[] {
  const shown =
    bounds.length <= maxShown ? bounds : [...bounds.slice(0, 6), "…", ...bounds.slice(-3)];
  return [name, `${shown.map(String).join(", ")} (${bounds.length})`];
}

/** docs/metrics.md: every metric that is exposed, from the table that the program registers them from. */
import { bucketLists, type MetricRow, metricTable } from "../../src/metrics/metric-table.ts";
import { processMetrics } from "../../src/metrics/process-metrics.ts";
import { kubeProxyMetrics } from "./kube-proxy-metrics.ts";
import { code, documentOf, table } from "./markdown.ts";

const introduction: readonly string[] = [
  "# Metrics",
  "",
  "Written by `make docs` from the table that the program registers its metrics from.",
  "",
  "Served at `/metrics` of `metricsBindAddress`, which is 127.0.0.1:10249 unless you say otherwise: **a Prometheus that",
  "runs elsewhere cannot reach that**. Set `metricsBindAddress: 0.0.0.0:10249` (or `--metrics-bind-address`), and let",
  "only your monitoring reach the port: there is no TLS and no authentication, as with kube-proxy.",
  "",
  "Names, types, labels and buckets of kube-proxy's metrics are those of kube-proxy 1.36, so that its dashboards and",
  "alerts work as they are. Our own begin with `kube_ipvs_`. A metric with labels has no series until something happened.",
];

const groups: readonly { readonly title: string; readonly isIn: (name: string) => boolean }[] = [
  { title: "As kube-proxy's", isIn: (name) => name.startsWith("kubeproxy_") },
  { title: "Our own", isIn: (name) => name.startsWith("kube_ipvs_") },
  { title: "Requests to the API server", isIn: (name) => name.startsWith("rest_client_") },
  { title: "Release and feature gates", isIn: (name) => name.startsWith("kubernetes_") },
  { title: "Process", isIn: (name) => /^(?:process|nodejs)_/.test(name) },
];

const slis: readonly string[] = [
  "`/metrics/slis` has `kubernetes_healthcheck` and `kubernetes_healthchecks_total`, labels `name` and `type` (and",
  "`status`): how often `/healthz` of this address answered. DELETE sets them back.",
];

const dashboard: readonly string[] = [
  "The queries of kubernetes-mixin's dashboard for kube-proxy and of its alerts are run by a test against a real",
  "Prometheus that scrapes the daemon. All return series but `go_goroutines`: there are none; look at",
  "`kube_ipvs_event_loop_delay_seconds` instead.",
];

export function metricsDocument(): string {
  const rows: readonly MetricRow[] = [...Object.values(metricTable), ...processMetrics];
  const absent = kubeProxyMetrics.filter(({ isAbsent }) => isAbsent === true);
  return documentOf([
    introduction,
    ...groups.flatMap(({ title, isIn }) => [
      [`## ${title}`],
      metricRows(rows.filter(({ name }) => isIn(name))),
    ]),
    slis,
    ["## Buckets"],
    table(["Buckets", "Upper bounds"], Object.entries(bucketLists).map(bucketRow)),
    ["## Dashboards"],
    dashboard,
    ["## What kube-proxy has and kube-ipvs has not"],
    table(
      ["Metric", "Why"],
      absent.map(({ name, differs = "" }) => [code(name), differs.replace(/^absent: /, "")]),
    ),
  ]);
}

function metricRows(rows: readonly MetricRow[]): readonly string[] {
  return table(
    ["Metric", "Type", "Labels", "Meaning"],
    rows.map(({ name, type, labels, help, buckets }) => [
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

/** Scrapes the daemon's metrics with a real Prometheus. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type MetricRow, metricTable } from "../../src/metrics/metric-table.ts";
import { processMetrics } from "../../src/metrics/process-metrics.ts";
import { kubeProxyMetrics } from "./kube-proxy-metrics.ts";
import { mixinQueries } from "./mixin-queries.ts";
import { lint, Prometheus, type Sample } from "./prometheus.ts";
import { clusterVersion, type ScrapedDaemon, startScrapedDaemon } from "./scraped-daemon.ts";

let daemon: ScrapedDaemon;
let prometheus: Prometheus;

before(async () => {
  daemon = await startScrapedDaemon();
  for (const path of ["healthz", "livez"]) await fetch(`http://${daemon.healthAddress}/${path}`);
  prometheus = await Prometheus.start(daemon.metricsAddress);
  daemon.keepBusy();
  await prometheus.until(unanswered);
});
after(async () => {
  await prometheus?.stop();
  await daemon?.stop();
});

/** Dashboard panels that should have data but have none yet. */
async function unanswered(): Promise<readonly string[]> {
  const expected = mixinQueries.filter(({ without }) => without === undefined);
  const answers = await Promise.all(expected.map(({ query }) => prometheus.query(query)));
  return expected.filter((_, index) => !hasNumber(answers[index] ?? [])).map(({ panel }) => panel);
}

/** A quantile without samples is NaN. */
function hasNumber(samples: readonly Sample[]): boolean {
  return samples.some(({ value: [, text] }) => !Number.isNaN(Number(text)));
}

const rows: readonly MetricRow[] = [...Object.values(metricTable), ...processMetrics];

/** Label names by metric, without those that Prometheus and histograms add. */
async function labelNames(): Promise<ReadonlyMap<string, string>> {
  const added = ["__name__", "job", "instance", "cluster", "le"];
  const histograms = new Set(
    rows.filter(({ type }) => type === "histogram").map(({ name }) => name),
  );
  const names = new Map<string, Set<string>>();
  for (const { __name__: name = "", ...labels } of await prometheus.series()) {
    const base = name.replace(/_(?:bucket|sum|count)$/, "");
    const key = histograms.has(base) ? base : name;
    const known = names.get(key) ?? new Set();
    // Prometheus drops labels with an empty value, so labels are collected from all series.
    for (const label of Object.keys(labels)) if (!added.includes(label)) known.add(label);
    names.set(key, known);
  }
  return new Map([...names].map(([name, labels]) => [name, [...labels].sort().join(" ")]));
}

describe("a real Prometheus reads", () => {
  it("every metric in the table with its type and help, and no others", async () => {
    const read = new Map(
      (await prometheus.metadata()).map(({ metric, type, help }) => [metric, `${type}: ${help}`]),
    );
    const wanted = new Map(rows.map(({ name, type, help }) => [name, `${type}: ${help}`]));
    assert.deepEqual([...read].sort(), [...wanted].sort());
  });

  it("kube-proxy's metrics by name, type and labels", async () => {
    const types = new Map(
      (await prometheus.metadata()).map(({ metric, type }) => [metric, type] as const),
    );
    const labels = await labelNames();
    for (const metric of kubeProxyMetrics) {
      const { name, type } = metric;
      assert.equal(types.get(name), metric.isAbsent === true ? undefined : type, name);
      const read = labels.get(name);
      const isUntouched = read === undefined && metric.isAbsent !== true;
      if (isUntouched) assert.ok(neverTouched.has(name), `${name} has no series`);
      else if (read !== undefined) assert.equal(read, [...metric.labels].sort().join(" "), name);
    }
  });

  it("kube-proxy's buckets", async () => {
    for (const { name, buckets, isAbsent } of kubeProxyMetrics) {
      if (buckets === undefined || isAbsent === true) continue;
      const samples = await prometheus.query(`group by (le) (${name}_bucket)`);
      const bounds = samples.map(({ metric }) => Number(metric["le"]?.replace("+Inf", "Infinity")));
      assert.deepEqual(
        bounds.sort((one, other) => one - other),
        [...buckets, Infinity],
        name,
      );
    }
  });

  it("figures of both IP families, without additional labels", async () => {
    const samples = await prometheus.query("kubeproxy_sync_proxy_rules_duration_seconds_count");
    const families = samples.map(({ metric }) => metric["ip_family"]);
    assert.deepEqual(families.sort(), ["IPv4", "IPv6"]);
  });
});

/** Labeled metrics that a healthy daemon never changes. They have no series until their first change. */
const neverTouched = new Set(["kubeproxy_sync_proxy_rules_iptables_restore_failures_total"]);

describe("the dashboard of kubernetes-mixin", () => {
  for (const { panel, query, without } of mixinQueries) {
    it(`${panel}: ${without === undefined ? "series" : `nothing, ${without}`}`, async () => {
      assert.equal(hasNumber(await prometheus.query(query)), without === undefined, query);
    });
  }
});

describe("kubernetes-mixin's alert KubeVersionMismatch", () => {
  /** The query for an API server of this version. The selectors are the mixin's defaults. */
  const mismatch = (apiServerVersion: string): string => {
    const apiServer = `label_replace(vector(1), "git_version", "${apiServerVersion}", "", "")`;
    const all = `kubernetes_build_info{job!~"kube-dns|coredns"} or ${apiServer}`;
    const releases = `label_replace(${all}, "git_version", "$1", "git_version", "(v[0-9]*.[0-9]*).*")`;
    return `count by (cluster) (count by (git_version) (${releases})) > 1`;
  };

  it("does not fire for kube-ipvs in a cluster of any version", async () => {
    const [ours] = await prometheus.query("kubernetes_build_info");
    assert.equal(ours?.metric["git_version"], clusterVersion);
    assert.deepEqual(await prometheus.query(mismatch("v1.30.9")), []);
  });

  it("is not silent because of missing series", async () => {
    assert.equal((await prometheus.query(mismatch("v1.36.2"))).length, 1);
  });
});

it("promtool criticizes only kube-proxy's own metric names", async () => {
  const response = await fetch(`http://${daemon.metricsAddress}/metrics`);
  const complaints = lint(await response.text());
  assert.deepEqual(
    complaints.filter((line) => line.includes("kube_ipvs_")),
    [],
  );
  for (const line of complaints)
    assert.match(line, /^(kubeproxy_|kubernetes_|nodejs_|rest_client_|process_)/);
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { metricTable } from "../../../src/metrics/metric-table.ts";
import {
  type PrometheusMetrics,
  prometheusMetrics,
  showServerVersion,
} from "../../../src/metrics/prometheus-metrics.ts";

const build = { version: "9.9.9" };

/** Returns a scrape's sample lines after `use`. */
async function samples(use: (metrics: PrometheusMetrics) => void): Promise<readonly string[]> {
  const metrics = prometheusMetrics(build);
  use(metrics);
  const text = await metrics.exposition();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("before the first event", () => {
  it("metrics without labels exist with the value zero, and those with labels do not", async () => {
    const lines = await samples(() => {});
    const ours = lines.filter((line) => /^kube/.test(line) && !/build_info|_bucket/.test(line));
    assert.deepEqual(ours, [
      "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
      "kubeproxy_sync_proxy_rules_endpoint_changes_total 0",
      "kubeproxy_sync_proxy_rules_service_changes_pending 0",
      "kubeproxy_sync_proxy_rules_service_changes_total 0",
      "kube_ipvs_first_sync_completed 0",
      "kube_ipvs_foreign_virtual_servers 0",
      "kube_ipvs_last_clean_verification_timestamp_seconds 0",
      "kube_ipvs_manual_weights 0",
      "kube_ipvs_userspace_refused_connections_total 0",
      "kube_ipvs_draining_real_servers 0",
      "kube_ipvs_oldest_draining_real_server_age_seconds 0",
      "kube_ipvs_event_loop_delay_seconds_sum 0",
      "kube_ipvs_event_loop_delay_seconds_count 0",
    ]);
  });

  it("the versions are exported", async () => {
    const lines = await samples(() => {});
    const found = lines.filter((line) => line.includes("build_info"));
    assert.equal(found.length, 1);
    assert.match(found[0] ?? "", /^kube_ipvs_build_info\{version="9.9.9",node_version="v\d+\./);
  });

  it("only the last known version of the API server is exported", async () => {
    const lines = await samples((metrics) => {
      showServerVersion({ major: "1", minor: "29", gitVersion: "v1.29.8" }, metrics);
      showServerVersion({ major: "1", minor: "30+", gitVersion: "v1.30.4+k3s1" }, metrics);
    });
    const found = lines.filter((line) => line.startsWith("kubernetes_build_info"));
    assert.equal(found.length, 1);
    const labels =
      /\{major="1",minor="30\+",git_version="v1.30.4\+k3s1",platform="linux\/\w+"\} 1$/;
    assert.match(found[0] ?? "", labels);
  });

  it("the process metrics are those of Go programs", async () => {
    const lines = await samples(() => {});
    const values = new Map(lines.map((line) => line.split(" ") as [string, string]));
    for (const name of [
      "process_cpu_seconds_total",
      "process_resident_memory_bytes",
      "process_virtual_memory_bytes",
      "process_open_fds",
      "process_max_fds",
      "process_start_time_seconds",
    ]) {
      assert.ok(Number(values.get(name)) > 0, `${name}: ${values.get(name)}`);
    }
  });
});

describe("a recorded figure", () => {
  it("has the given labels, and adds one without a number", async () => {
    const lines = await samples((metrics) => {
      metrics.syncRuns.inc({ kind: "full", result: "failure" });
      metrics.kernelChanges.inc({ kind: "real-server-create", result: "success" }, 5);
      metrics.conflicts.set({ reason: "gateway-address" }, 2);
      metrics.conflicts.set({ reason: "gateway-address" }, 1);
    });
    const found = lines.filter((line) => /^kube_ipvs_(sync|kernel|frontend)/.test(line));
    assert.deepEqual(found, [
      'kube_ipvs_sync_runs_total{kind="full",result="failure"} 1',
      'kube_ipvs_kernel_changes_total{kind="real-server-create",result="success"} 5',
      'kube_ipvs_frontend_conflicts{reason="gateway-address"} 1',
    ]);
  });
});

describe("the exposition", () => {
  it("has a help line and a type for each metric of the table", async () => {
    const text = await prometheusMetrics(build).exposition();
    for (const { name, help } of Object.values(metricTable)) {
      assert.ok(text.includes(`# HELP ${name} ${help}\n# TYPE ${name} `), name);
    }
  });

  it("has upstream's buckets", async () => {
    const lines = await samples((metrics) => {
      metrics.syncDuration.observe({ ip_family: "IPv4" }, 1);
      metrics.networkProgramming.observe({ ip_family: "IPv4" }, 1);
    });
    const bounds = (name: string): readonly string[] =>
      lines.flatMap((line) =>
        line.startsWith(`${name}_bucket`) ? (/le="([^"]+)"/.exec(line)?.[1] ?? []) : [],
      );
    const sync = bounds("kubeproxy_sync_proxy_rules_duration_seconds");
    assert.deepEqual([sync[0], sync[14], sync[15], sync.length], ["0.001", "16.384", "+Inf", 16]);
    const latency = bounds("kubeproxy_network_programming_duration_seconds");
    assert.deepEqual(latency.slice(0, 5), ["0", "0.25", "0.5", "1", "2"]);
    assert.deepEqual(latency.slice(-9), [
      "115",
      "120",
      "150",
      "180",
      "210",
      "240",
      "270",
      "300",
      "+Inf",
    ]);
    assert.equal(latency.length, 82);
  });

  it("names its format version in the content type", () => {
    const { contentType } = prometheusMetrics(build);
    assert.equal(contentType, "text/plain; version=0.0.4; charset=utf-8");
  });
});

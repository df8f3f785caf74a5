import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { metricTable } from "../../../src/metrics/metric-table.ts";
import { PrometheusMetrics } from "../../../src/metrics/prometheus-metrics.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const build = { version: "9.9.9" };

/** The sample lines of a scrape after `use`. */
async function samples(use: (metrics: PrometheusMetrics) => void): Promise<readonly string[]> {
  const metrics = new PrometheusMetrics(new FakeClock(), build);
  use(metrics);
  const text = await metrics.exposition();
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

describe("before anything happened", () => {
  it("metrics without labels are there, at zero, and those with labels are not", async () => {
    const lines = await samples(() => {});
    const ours = lines.filter((line) => /^kube/.test(line) && !/build_info|_bucket/.test(line));
    assert.deepEqual(ours, [
      "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
      "kubeproxy_sync_proxy_rules_endpoint_changes_total 0",
      "kubeproxy_sync_proxy_rules_service_changes_pending 0",
      "kubeproxy_sync_proxy_rules_service_changes_total 0",
      "kube_ipvs_first_sync_completed 0",
      "kube_ipvs_foreign_virtual_servers 0",
      "kube_ipvs_manual_weights 0",
      "kube_ipvs_draining_real_servers 0",
      "kube_ipvs_oldest_draining_real_server_age_seconds 0",
      "kube_ipvs_event_loop_delay_seconds_sum 0",
      "kube_ipvs_event_loop_delay_seconds_count 0",
    ]);
  });

  it("the versions are shown", async () => {
    const lines = await samples(() => {});
    const found = lines.filter((line) => line.includes("build_info"));
    assert.equal(found.length, 1);
    assert.match(found[0] ?? "", /^kube_ipvs_build_info\{version="9.9.9",node_version="v\d+\./);
  });

  it("the API server's version is shown once it is known, and only the last one", async () => {
    const lines = await samples((metrics) => {
      metrics.serverVersion({ major: "1", minor: "29", gitVersion: "v1.29.8" });
      metrics.serverVersion({ major: "1", minor: "30+", gitVersion: "v1.30.4+k3s1" });
    });
    const found = lines.filter((line) => line.startsWith("kubernetes_build_info"));
    assert.equal(found.length, 1);
    const labels =
      /\{major="1",minor="30\+",git_version="v1.30.4\+k3s1",platform="linux\/\w+"\} 1$/;
    assert.match(found[0] ?? "", labels);
  });

  it("the process is measured as Go programs are", async () => {
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
  const cases: readonly {
    readonly name: string;
    readonly use: (metrics: PrometheusMetrics) => void;
    readonly want: readonly string[];
  }[] = [
    {
      name: "sync duration, by family",
      use: (metrics) => metrics.syncFinished("IPv6", 0.004),
      want: [
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv6"} 0',
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv6"} 1',
        'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1',
      ],
    },
    {
      name: "last success and last request, in seconds since the epoch",
      use: (metrics) => {
        metrics.syncQueued("IPv4");
        metrics.syncSucceeded("IPv4");
      },
      want: [
        `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ${new FakeClock().nowMs() / 1000}`,
        `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ${new FakeClock().nowMs() / 1000}`,
      ],
    },
    {
      name: "network programming latency",
      use: (metrics) => metrics.networkProgrammed("IPv4", 61),
      want: [
        'kubeproxy_network_programming_duration_seconds_bucket{le="60",ip_family="IPv4"} 0',
        'kubeproxy_network_programming_duration_seconds_bucket{le="65",ip_family="IPv4"} 1',
      ],
    },
    {
      name: "changes seen and pending",
      use: (metrics) => {
        metrics.serviceChanged(2, 7);
        metrics.endpointSliceChanged(3);
      },
      want: [
        "kubeproxy_sync_proxy_rules_service_changes_total 2",
        "kubeproxy_sync_proxy_rules_service_changes_pending 7",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total 1",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 3",
      ],
    },
    {
      name: "nothing pending when a sync took all",
      use: (metrics) => {
        metrics.serviceChanged(1, 7);
        metrics.endpointSliceChanged(3);
        metrics.changesTaken();
      },
      want: [
        "kubeproxy_sync_proxy_rules_service_changes_pending 0",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
      ],
    },
    {
      name: "what a third party changed, and what Services do not get",
      use: (metrics) => {
        metrics.driftDetected("rules");
        metrics.driftDetected("rules");
        metrics.conflicts("gateway-address", 2);
        metrics.conflicts("gateway-address", 1);
      },
      want: [
        'kube_ipvs_drift_detected_total{state="rules"} 2',
        'kube_ipvs_frontend_conflicts{reason="gateway-address"} 1',
      ],
    },
    {
      name: "services without local endpoints",
      use: (metrics) => metrics.noLocalEndpoints("external", "IPv4", 2),
      want: [
        'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external",ip_family="IPv4"} 2',
      ],
    },
    {
      name: "health answers",
      use: (metrics) => {
        metrics.healthzAnswered(503);
        metrics.livezAnswered(200);
      },
      want: [
        'kubeproxy_proxy_healthz_total{code="503"} 1',
        'kubeproxy_proxy_livez_total{code="200"} 1',
      ],
    },
    {
      name: "conntrack, where deleting nothing still makes the series",
      use: (metrics) => metrics.conntrackReconciled("IPv4", 0.5, 0),
      want: [
        'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1',
        'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 0',
      ],
    },
    {
      name: "failed restores",
      use: (metrics) => metrics.iptablesRestoreFailed("IPv4"),
      want: ['kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 1'],
    },
    {
      name: "our own",
      use: (metrics) => {
        metrics.kernelChanges("real-server-create", "success", 5);
        metrics.objectRefused("services", "invalid-port");
        metrics.foreignVirtualServers(4);
        metrics.draining(3, 1.5);
        metrics.syncRun("full", "failure");
      },
      want: [
        'kube_ipvs_sync_runs_total{kind="full",result="failure"} 1',
        'kube_ipvs_kernel_changes_total{kind="real-server-create",result="success"} 5',
        'kube_ipvs_invalid_fields_total{resource="services",reason="invalid-port"} 1',
        "kube_ipvs_foreign_virtual_servers 4",
        "kube_ipvs_draining_real_servers 3",
        "kube_ipvs_oldest_draining_real_server_age_seconds 1.5",
      ],
    },
  ];
  for (const { name, use, want } of cases) {
    it(name, async () => {
      const lines = new Set(await samples(use));
      assert.deepEqual(
        want.filter((line) => !lines.has(line)),
        [],
        [...lines].join("\n"),
      );
    });
  }
});

describe("the exposition", () => {
  it("has a help line and a type for each metric of the table", async () => {
    const text = await new PrometheusMetrics(new FakeClock(), build).exposition();
    for (const { name, help } of Object.values(metricTable)) {
      assert.ok(text.includes(`# HELP ${name} ${help}\n# TYPE ${name} `), name);
    }
  });

  it("has upstream's buckets", async () => {
    const lines = await samples((metrics) => {
      metrics.syncFinished("IPv4", 1);
      metrics.networkProgrammed("IPv4", 1);
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

  it("says in its content type which version it is", () => {
    const { contentType } = new PrometheusMetrics(new FakeClock(), build);
    assert.equal(contentType, "text/plain; version=0.0.4; charset=utf-8");
  });
});

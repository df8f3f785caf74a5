/** Tests the metrics of the reporters, as Prometheus reads them, and their log lines. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiContact } from "../../../../src/daemon/report/api-contact.ts";
import type { LoopSummary } from "../../../../src/daemon/report/loop-reporter.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { type IpvsFindings, SyncReporter } from "../../../../src/daemon/report/sync-reporter.ts";
import { sourceListener } from "../../../../src/daemon/sync/source-listener.ts";
import { prometheusMetrics } from "../../../../src/metrics/prometheus-metrics.ts";
import { emptyReport } from "../../../../src/reconcile/report.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const clock = new FakeClock();
const now = clock.nowMs() / 1000;
const rejectedLoad = {
  change: { kind: "module-load", module: "ip_vs_rr", reason: "missing" },
  error: new Error("ENOENT"),
} as const;

class Reporters {
  readonly log = new RecordingLogger();
  readonly #metrics = prometheusMetrics({ version: "0.0.0" });
  readonly #parts = {
    metrics: this.#metrics,
    health: new ProxyHealth(clock, 60_000),
    clock,
    log: this.log,
    nodeName: "node-1",
    events: { record() {} },
  };
  readonly loop: SyncReporter = new SyncReporter(this.#parts);
  readonly contact: ApiContact = new ApiContact(clock, this.#metrics);
  readonly source = sourceListener(
    { noteService() {}, noteSlice() {}, noteNode() {}, noteNodes() {}, noteSynced() {} },
    this.#parts,
  );

  synced(report: Partial<LoopSummary["report"]>, summary: Partial<LoopSummary> = {}): void {
    const desired = {
      withoutLocalEndpoints: (policy: string) => (policy === "external" ? 2 : 0),
      virtualServerKeys: () => [],
      claims: { lost: () => [], reserved: () => [] },
      claimantOf: () => undefined,
    } as unknown as IpvsFindings["desired"];
    const whole: LoopSummary = {
      families: ["IPv6"],
      report: { ...emptyReport, ...report },
      isFull: true,
      observeOnly: false,
      serviceCount: 2,
      plannedServiceCount: 0,
      elapsedMs: 4,
      triggers: [],
      desired,
      lostHealthPorts: [],
      waitingClaims: [],
      annotationProblems: new Map(),
      limitedServices: [],
      ...summary,
    };
    this.loop.synced(whole, { desired, drains: { count: 3, oldestAgeSeconds: 1.5 } });
  }

  async samples(): Promise<ReadonlySet<string>> {
    return new Set((await this.#metrics.exposition()).split("\n"));
  }
}

const failure = { kind: "observe", subject: "sets", error: new Error("EIO") } as const;

describe("a figure", () => {
  const cases: readonly {
    readonly name: string;
    readonly use: (reporters: Reporters) => void;
    readonly want: readonly string[];
  }[] = [
    {
      name: "duration and time of a successful sync",
      use: (reporters) => reporters.synced({}),
      want: [
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv6"} 0',
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv6"} 1',
        'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1',
        `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"} ${now}`,
        'kube_ipvs_sync_runs_total{kind="full",result="success"} 1',
        "kube_ipvs_first_sync_completed 1",
        "kube_ipvs_draining_real_servers 3",
        "kube_ipvs_oldest_draining_real_server_age_seconds 1.5",
        'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy="external",ip_family="IPv6"} 2',
      ],
    },
    {
      name: "time of the last sync request",
      use: ({ loop }) => loop.queued(["IPv4"]),
      want: [`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} ${now}`],
    },
    {
      name: "network programming latency",
      use: (reporters) => {
        const triggers = [{ family: "IPv4", timeMs: clock.nowMs() - 61_000 }] as const;
        reporters.synced({}, { triggers });
      },
      want: [
        'kubeproxy_network_programming_duration_seconds_bucket{le="60",ip_family="IPv4"} 0',
        'kubeproxy_network_programming_duration_seconds_bucket{le="65",ip_family="IPv4"} 1',
      ],
    },
    {
      name: "seen and pending changes, a Service's once for each family",
      use: ({ loop }) => {
        loop.serviceChanged(["IPv4", "IPv6"], 7);
        loop.sliceChanged(3);
      },
      want: [
        "kubeproxy_sync_proxy_rules_service_changes_total 2",
        "kubeproxy_sync_proxy_rules_service_changes_pending 7",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total 1",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 3",
      ],
    },
    {
      name: "nothing pending after a sync applied everything",
      use: (reporters) => {
        reporters.loop.serviceChanged(["IPv4"], 7);
        reporters.loop.sliceChanged(3);
        reporters.synced({ failures: [failure] }, { isFull: false });
      },
      want: [
        "kubeproxy_sync_proxy_rules_service_changes_pending 0",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
        'kube_ipvs_sync_runs_total{kind="partial",result="failure"} 1',
        'kube_ipvs_kernel_changes_total{kind="observe",result="failure"} 1',
      ],
    },
    {
      name: "checks that found third-party changes",
      use: ({ loop }) => {
        loop.driftDetected("rules");
        loop.driftDetected("rules");
      },
      want: ['kube_ipvs_drift_detected_total{state="rules"} 2'],
    },
    {
      name: "conntrack, with a series even if nothing is deleted",
      use: (reporters) =>
        reporters.synced({
          conntrackPasses: [{ family: "IPv4", elapsedMs: 500, deletedCount: 0 }],
        }),
      want: [
        'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1',
        'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 0',
      ],
    },
    {
      name: "changes, rejected changes, failed restores, foreign virtual servers",
      use: (reporters) =>
        reporters.synced({
          changes: new Map([["real-server-create", 5]]),
          rejected: [rejectedLoad, rejectedLoad],
          failedRestores: ["IPv4"],
          foreignServers: [toServerKey("a"), toServerKey("b")],
        }),
      want: [
        'kube_ipvs_kernel_changes_total{kind="real-server-create",result="success"} 5',
        'kube_ipvs_kernel_changes_total{kind="module-load",result="failure"} 2',
        'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 1',
        "kube_ipvs_foreign_virtual_servers 2",
      ],
    },
    {
      name: "invalid fields",
      use: ({ source }) =>
        source.onRefusal({
          kind: "services",
          subject: "default/a",
          field: "spec.ports",
          reason: "invalid-port",
          message: "",
        }),
      want: ['kube_ipvs_invalid_fields_total{resource="services",reason="invalid-port"} 1'],
    },
    {
      name: "API server requests; one without an answer has no response size",
      use: ({ contact }) => {
        const host = "10.0.0.1:6443";
        contact.apiRequestAnswered("GET", host, "<error>");
        contact.apiRequestEnded("GET", host, { seconds: 3, sentBytes: 0 });
        contact.apiRequestEnded("POST", host, { seconds: 3, sentBytes: 9, receivedBytes: 500 });
      },
      want: [
        'rest_client_requests_total{code="<error>",method="GET",host="10.0.0.1:6443"} 1',
        'rest_client_request_duration_seconds_sum{verb="GET",host="10.0.0.1:6443"} 3',
        'rest_client_request_size_bytes_sum{verb="POST",host="10.0.0.1:6443"} 9',
        'rest_client_response_size_bytes_count{verb="POST",host="10.0.0.1:6443"} 1',
      ],
    },
  ];
  for (const { name, use, want } of cases) {
    it(name, async () => {
      const reporters = new Reporters();
      use(reporters);
      const lines = await reporters.samples();
      assert.deepEqual(
        want.filter((line) => !lines.has(line)),
        [],
        [...lines].join("\n"),
      );
    });
  }
});

describe("a failed sync's log", () => {
  it("distinguishes reads from changes", () => {
    const reporters = new Reporters();
    const change = { ...failure, kind: "set-create", subject: "set ONE" } as const;
    reporters.synced({ failures: [failure, change] });
    const lines = reporters.log.lines.map(({ event, keys }) => [event, keys]);
    assert.deepEqual(lines.slice(0, 2), [
      ["Cannot read kernel state", { subject: "sets", err: "EIO" }],
      ["Kernel change failed", { change: "set-create", subject: "set ONE", err: "EIO" }],
    ]);
  });
});

describe("an EndpointSlice without a Service", () => {
  it("is valid: it causes one line at verbosity 4, and no invalid field", async () => {
    const reporters = new Reporters();
    const subject = "default/example-abc";
    const field = "metadata.labels";
    reporters.source.onRefusal({
      ...{ kind: "endpointslices", subject, field, reason: "missing-service-label", message: "" },
    });
    assert.deepEqual(
      reporters.log.lines.map(({ level, event, keys }) => [level, event, keys]),
      [["verbose", "Skipping EndpointSlice that belongs to no Service", { subject }]],
    );
    const samples = [...(await reporters.samples())];
    assert.deepEqual(
      samples.filter((sample) => sample.startsWith("kube_ipvs_invalid_fields_total{")),
      [],
    );
  });
});

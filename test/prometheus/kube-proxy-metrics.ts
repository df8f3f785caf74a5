/**
 * The metrics that kube-proxy 1.36.2 exposes in IPVS mode. A test compares them with the metrics that a real Prometheus
 * reads from kube-ipvs.
 */
import type { MetricType } from "../../src/metrics/metric-table.ts";

/** A metric of kube-proxy. */
export interface KubeProxyMetric {
  readonly name: string;
  readonly type: MetricType;
  /** Label names except `le`. */
  readonly labels: readonly string[];
  /** Upper bounds, except the last one, which is infinite. */
  readonly buckets?: readonly number[];
  /** Whether kube-ipvs does not expose the metric. docs/reports/compatibility.md explains why. */
  readonly isAbsent?: true;
}

/** 15 bounds, starting with 0.001 s. Each is twice the previous one. */
const syncBuckets: readonly number[] = [
  ...[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512],
  ...[1.024, 2.048, 4.096, 8.192, 16.384],
];

/** kube-proxy's buckets, listed independently of the table in src/metrics. */
const latencyBuckets: readonly number[] = [0, 0.25, 0.5].concat(
  Array.from({ length: 300 }, (_, index) => index + 1).filter(
    (second) => second < 60 || (second < 120 && second % 5 === 0) || second % 30 === 0,
  ),
);
const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const sizeBuckets = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];

const family = ["ip_family"] as const;

function histogram(
  name: string,
  labels: readonly string[],
  buckets: readonly number[],
): KubeProxyMetric {
  return { name, type: "histogram", labels, buckets };
}

function counter(name: string, labels: readonly string[] = []): KubeProxyMetric {
  return { name, type: "counter", labels };
}

function gauge(name: string, labels: readonly string[] = []): KubeProxyMetric {
  return { name, type: "gauge", labels };
}

function absent(metric: KubeProxyMetric): KubeProxyMetric {
  return { ...metric, isAbsent: true };
}

export const kubeProxyMetrics: readonly KubeProxyMetric[] = [
  histogram("kubeproxy_sync_proxy_rules_duration_seconds", family, syncBuckets),
  gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds", family),
  gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", family),
  histogram("kubeproxy_network_programming_duration_seconds", family, latencyBuckets),
  gauge("kubeproxy_sync_proxy_rules_endpoint_changes_pending"),
  counter("kubeproxy_sync_proxy_rules_endpoint_changes_total"),
  gauge("kubeproxy_sync_proxy_rules_service_changes_pending"),
  counter("kubeproxy_sync_proxy_rules_service_changes_total"),
  gauge("kubeproxy_sync_proxy_rules_no_local_endpoints_total", [...family, "traffic_policy"]),
  counter("kubeproxy_proxy_healthz_total", ["code"]),
  counter("kubeproxy_proxy_livez_total", ["code"]),
  histogram("kubeproxy_conntrack_reconciler_sync_duration_seconds", family, syncBuckets),
  counter("kubeproxy_conntrack_reconciler_deleted_entries_total", family),
  counter("kubeproxy_sync_proxy_rules_iptables_restore_failures_total", family),
  gauge("kubernetes_build_info", ["major", "minor", "git_version", "platform"]),
  gauge("kubernetes_feature_enabled", ["name", "stage"]),
  counter("rest_client_requests_total", ["code", "method", "host"]),
  histogram("rest_client_request_duration_seconds", ["verb", "host"], requestBuckets),
  histogram("rest_client_request_size_bytes", ["verb", "host"], sizeBuckets),
  histogram("rest_client_response_size_bytes", ["verb", "host"], sizeBuckets),
  absent(histogram("rest_client_rate_limiter_duration_seconds", ["verb", "host"], requestBuckets)),
  absent(histogram("rest_client_dns_resolution_duration_seconds", ["host"], requestBuckets)),
  absent(counter("rest_client_request_retries_total", ["code", "verb", "host"])),
  absent(counter("rest_client_exec_plugin_call_total", ["code", "call_status"])),
  absent(gauge("rest_client_exec_plugin_ttl_seconds")),
  absent(histogram("rest_client_exec_plugin_certificate_rotation_age", [], [])),
  absent(gauge("rest_client_transport_cache_entries")),
  absent(counter("rest_client_transport_create_calls_total", ["result"])),
  counter("process_cpu_seconds_total"),
  gauge("process_start_time_seconds"),
  gauge("process_resident_memory_bytes"),
  gauge("process_virtual_memory_bytes"),
  gauge("process_virtual_memory_max_bytes"),
  gauge("process_open_fds"),
  gauge("process_max_fds"),
  counter("process_network_receive_bytes_total"),
  counter("process_network_transmit_bytes_total"),
  absent(gauge("go_*")),
  absent(counter("promhttp_metric_handler_requests_total", ["code"])),
  absent(gauge("promhttp_metric_handler_requests_in_flight")),
  absent(counter("registered_metrics_total", ["deprecated_version", "stability_level"])),
  absent(counter("disabled_metrics_total")),
  absent(counter("hidden_metrics_total")),
];

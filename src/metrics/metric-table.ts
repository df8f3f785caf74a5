/**
 * A metric with its type, labels and help text. `kubeproxy_` metrics have the same labels and buckets as in kube-proxy
 * 1.36. Metrics that only kube-ipvs has begin with `kube_ipvs_`. A metric with labels has no series until it is first
 * set.
 */
export interface MetricRow {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  /** Undefined if the metric has no labels. */
  readonly labels?: readonly string[];
  /** Only for histograms. */
  readonly buckets?: BucketList;
}

export type MetricType = "counter" | "gauge" | "histogram";

export type BucketList = "sync" | "latency" | "request" | "bytes";

export const metricTable = {
  syncDuration: {
    name: "kubeproxy_sync_proxy_rules_duration_seconds",
    type: "histogram",
    help: "Sync latency in seconds",
    labels: ["ip_family"],
    buckets: "sync",
  },
  syncLastTimestamp: {
    name: "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
    type: "gauge",
    help: "Time of the last successful sync, in seconds since the epoch",
    labels: ["ip_family"],
  },
  syncLastQueued: {
    name: "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
    type: "gauge",
    help: "Time at which a sync was last queued, in seconds since the epoch",
    labels: ["ip_family"],
  },
  networkProgramming: {
    name: "kubeproxy_network_programming_duration_seconds",
    type: "histogram",
    help: "Seconds from a change in the cluster until it was applied on this node",
    labels: ["ip_family"],
    buckets: "latency",
  },
  endpointChangesPending: {
    name: "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
    type: "gauge",
    help: "Pending endpoint changes",
  },
  endpointChanges: {
    name: "kubeproxy_sync_proxy_rules_endpoint_changes_total",
    type: "counter",
    help: "Endpoint changes received",
  },
  serviceChangesPending: {
    name: "kubeproxy_sync_proxy_rules_service_changes_pending",
    type: "gauge",
    help: "Pending Service changes",
  },
  serviceChanges: {
    name: "kubeproxy_sync_proxy_rules_service_changes_total",
    type: "counter",
    help: "Service changes received, counted once per IP family",
  },
  noLocalEndpoints: {
    name: "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
    type: "gauge",
    help: "Service ports with a Local traffic policy whose endpoints are all on other nodes",
    labels: ["ip_family", "traffic_policy"],
  },
  healthz: {
    name: "kubeproxy_proxy_healthz_total",
    type: "counter",
    help: "Responses of /healthz by HTTP status",
    labels: ["code"],
  },
  livez: {
    name: "kubeproxy_proxy_livez_total",
    type: "counter",
    help: "Responses of /livez by HTTP status",
    labels: ["code"],
  },
  conntrackDuration: {
    name: "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    type: "histogram",
    help: "Time taken to delete stale conntrack entries, in seconds",
    labels: ["ip_family"],
    buckets: "sync",
  },
  conntrackDeleted: {
    name: "kubeproxy_conntrack_reconciler_deleted_entries_total",
    type: "counter",
    help: "Stale conntrack entries deleted",
    labels: ["ip_family"],
  },
  iptablesRestoreFailures: {
    name: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    type: "counter",
    help: "iptables-restore runs that failed",
    labels: ["ip_family"],
  },
  fullSyncDuration: {
    name: "kubeproxy_sync_full_proxy_rules_duration_seconds",
    type: "histogram",
    help: "iptables mode: latency of syncs that compared all rules, in seconds",
    labels: ["ip_family"],
    buckets: "sync",
  },
  partialSyncDuration: {
    name: "kubeproxy_sync_partial_proxy_rules_duration_seconds",
    type: "histogram",
    help: "iptables mode: latency of syncs that wrote only changed rules, in seconds",
    labels: ["ip_family"],
    buckets: "sync",
  },
  partialRestoreFailures: {
    name: "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
    type: "counter",
    help: "iptables mode: failed iptables-restore runs that wrote only changes",
    labels: ["ip_family"],
  },
  iptablesRules: {
    name: "kubeproxy_sync_proxy_rules_iptables_total",
    type: "gauge",
    help: "iptables mode: rules in kube-ipvs chains",
    labels: ["ip_family", "table"],
  },
  iptablesRulesWritten: {
    name: "kubeproxy_sync_proxy_rules_iptables_last",
    type: "gauge",
    help: "iptables mode: rules written by the last sync",
    labels: ["ip_family", "table"],
  },
  buildInfo: {
    name: "kubernetes_build_info",
    type: "gauge",
    help: "Always 1; the labels give the API server's version instead of kube-ipvs' own, so that alerts that compare component versions do not fire",
    labels: ["major", "minor", "git_version", "platform"],
  },
  featureEnabled: {
    name: "kubernetes_feature_enabled",
    type: "gauge",
    help: "1 if the feature gate is enabled, 0 if not",
    labels: ["name", "stage"],
  },
  ownBuildInfo: {
    name: "kube_ipvs_build_info",
    type: "gauge",
    help: "Always 1; the labels give the versions of kube-ipvs and Node.js",
    labels: ["version", "node_version"],
  },
  firstSyncCompleted: {
    name: "kube_ipvs_first_sync_completed",
    type: "gauge",
    help: "1 if a sync has succeeded since startup, 0 if not",
  },
  syncRuns: {
    name: "kube_ipvs_sync_runs_total",
    type: "counter",
    help: "Syncs by kind (full: whole kernel state; partial: changed objects only) and result",
    labels: ["kind", "result"],
  },
  kernelChanges: {
    name: "kube_ipvs_kernel_changes_total",
    type: "counter",
    help: "Changes applied to the kernel, by kind and result",
    labels: ["kind", "result"],
  },
  invalidFields: {
    name: "kube_ipvs_invalid_fields_total",
    type: "counter",
    help: "Invalid fields of API objects or manifests that were ignored, by reason",
    labels: ["resource", "reason"],
  },
  relistGuardOutcomes: {
    name: "kube_ipvs_relist_guard_outcomes_total",
    type: "counter",
    help: "API lists that the relist guard quarantined (held), and how each quarantine ended (confirmed, refuted, expired)",
    labels: ["resource", "outcome"],
  },
  quarantinedLists: {
    name: "kube_ipvs_quarantined_lists",
    type: "gauge",
    help: "1 if a list of this resource is quarantined until a second list confirms it, 0 if not",
    labels: ["resource"],
  },
  foreignVirtualServers: {
    name: "kube_ipvs_foreign_virtual_servers",
    type: "gauge",
    help: "Virtual servers in the kernel that are not owned by kube-ipvs",
  },
  driftDetected: {
    name: "kube_ipvs_drift_detected_total",
    type: "counter",
    help: "Checks between syncs that found sets or rules changed by a third party",
    labels: ["state"],
  },
  lastCleanVerification: {
    name: "kube_ipvs_last_clean_verification_timestamp_seconds",
    type: "gauge",
    help: "Time of the last verification that found no difference, in seconds since the epoch",
  },
  drift: {
    name: "kube_ipvs_drift_total",
    type: "counter",
    help: "Kernel objects that a third party changed, by kind and action taken",
    labels: ["kind", "action"],
  },
  manualWeights: {
    name: "kube_ipvs_manual_weights",
    type: "gauge",
    help: "Real servers that keep a weight set by a third party (see kubeIpvs.manualWeights)",
  },
  suppressedRepairs: {
    name: "kube_ipvs_suppressed_repairs",
    type: "gauge",
    help: "Repairs that are backing off because a third party keeps reverting them, by kind",
    labels: ["kind"],
  },
  refusedObjects: {
    name: "kube_ipvs_refused_objects",
    type: "gauge",
    help: "Objects that the kernel currently rejects and kube-ipvs retries with back-off, by kind and reason",
    labels: ["kind", "reason"],
  },
  pendingChanges: {
    name: "kube_ipvs_pending_changes",
    type: "gauge",
    help: "Changes that observe-only mode did not apply in the last sync, by kind",
    labels: ["kind"],
  },
  conflicts: {
    name: "kube_ipvs_frontend_conflicts",
    type: "gauge",
    help: "Service addresses and ports that are not served or not bound to kube-ipvs0, by reason",
    labels: ["reason"],
  },
  refusedConnections: {
    name: "kube_ipvs_userspace_refused_connections_total",
    type: "counter",
    help: "Connections that userspace mode closed because of a per-Service or overall connection limit",
  },
  ignoredAnnotations: {
    name: "kube_ipvs_ignored_annotations",
    type: "gauge",
    help: "Service annotations that are currently ignored, by reason",
    labels: ["reason"],
  },
  weightSignals: {
    name: "kube_ipvs_weight_signals",
    type: "gauge",
    help: "Endpoints by weight signal: answered or unanswered (requests for the endpoint's weight), or ejected (new connections to it are failing)",
    labels: ["signal"],
  },
  drainingRealServers: {
    name: "kube_ipvs_draining_real_servers",
    type: "gauge",
    help: "Real servers with weight 0 that are draining their connections",
  },
  oldestDrain: {
    name: "kube_ipvs_oldest_draining_real_server_age_seconds",
    type: "gauge",
    help: "Seconds since the oldest drain started, 0 if no real server is draining",
  },
  eventLoopDelay: {
    name: "kube_ipvs_event_loop_delay_seconds",
    type: "histogram",
    help: "Event loop delay in seconds, sampled 4 times per second",
    buckets: "sync",
  },
  apiRequests: {
    name: "rest_client_requests_total",
    type: "counter",
    help: "Requests to the API server by HTTP status, method and host; code <error> means no response",
    labels: ["code", "method", "host"],
  },
  apiDuration: {
    name: "rest_client_request_duration_seconds",
    type: "histogram",
    help: "API server request latency in seconds, excluding watches",
    labels: ["verb", "host"],
    buckets: "request",
  },
  apiRequestSize: {
    name: "rest_client_request_size_bytes",
    type: "histogram",
    help: "Size of API server request bodies in bytes",
    labels: ["verb", "host"],
    buckets: "bytes",
  },
  apiResponseSize: {
    name: "rest_client_response_size_bytes",
    type: "histogram",
    help: "Size of uncompressed API server responses in bytes, excluding watches",
    labels: ["verb", "host"],
    buckets: "bytes",
  },
} as const;

/** Upper bounds of the buckets, in seconds or bytes. */
export const bucketLists: Readonly<Record<BucketList, readonly number[]>> = {
  /** 0.001 × 2^k, for k from 0 to 14. */
  sync: Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power),
  /** Narrow buckets up to one minute, wide ones up to five. The first bound is 0, as upstream. */
  latency: [...[0, 0.25, 0.5], ...range(1, 59, 1), ...range(60, 115, 5), ...range(120, 300, 30)],
  /** The buckets of client-go. */
  request: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
  bytes: [64, 256, 512, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216],
};

function range(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step) + 1;
  return Array.from({ length: count }, (_, index) => first + index * step);
}

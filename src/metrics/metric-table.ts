/**
 * Every metric, with its type, labels and meaning. Names beginning `kubeproxy_` are kube-proxy 1.36's as
 * ipvs mode exposes them, with the same labels and buckets; ours begin `kube_ipvs_`. A metric with
 * labels has no series until it is first touched.
 */
export interface MetricRow {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  readonly labels: readonly string[];
  /** Histograms only. */
  readonly buckets?: BucketList;
}

export type MetricType = "counter" | "gauge" | "histogram";

export type BucketList = "sync" | "latency" | "request" | "bytes";

export const metricTable = {
  syncDuration: {
    name: "kubeproxy_sync_proxy_rules_duration_seconds",
    type: "histogram",
    help: "Seconds that a sync took",
    labels: ["ip_family"],
    buckets: "sync",
  },
  syncLastTimestamp: {
    name: "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
    type: "gauge",
    help: "When a sync last succeeded, in seconds since the epoch",
    labels: ["ip_family"],
  },
  syncLastQueued: {
    name: "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
    type: "gauge",
    help: "When a sync was last asked for, in seconds since the epoch",
    labels: ["ip_family"],
  },
  networkProgramming: {
    name: "kubeproxy_network_programming_duration_seconds",
    type: "histogram",
    help: "Seconds from a change in the cluster until the node's network followed it",
    labels: ["ip_family"],
    buckets: "latency",
  },
  endpointChangesPending: {
    name: "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
    type: "gauge",
    help: "Endpoint changes that wait for the next sync",
    labels: [],
  },
  endpointChanges: {
    name: "kubeproxy_sync_proxy_rules_endpoint_changes_total",
    type: "counter",
    help: "Endpoint changes seen",
    labels: [],
  },
  serviceChangesPending: {
    name: "kubeproxy_sync_proxy_rules_service_changes_pending",
    type: "gauge",
    help: "Service changes that wait for the next sync",
    labels: [],
  },
  serviceChanges: {
    name: "kubeproxy_sync_proxy_rules_service_changes_total",
    type: "counter",
    help: "Service changes seen, counted once for each IP family",
    labels: [],
  },
  noLocalEndpoints: {
    name: "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
    type: "gauge",
    help: "Service ports with a Local traffic policy and endpoints on other nodes only",
    labels: ["ip_family", "traffic_policy"],
  },
  healthz: {
    name: "kubeproxy_proxy_healthz_total",
    type: "counter",
    help: "Answers of /healthz by HTTP status",
    labels: ["code"],
  },
  livez: {
    name: "kubeproxy_proxy_livez_total",
    type: "counter",
    help: "Answers of /livez by HTTP status",
    labels: ["code"],
  },
  conntrackDuration: {
    name: "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    type: "histogram",
    help: "Seconds that a look for stale connection tracking entries took",
    labels: ["ip_family"],
    buckets: "sync",
  },
  conntrackDeleted: {
    name: "kubeproxy_conntrack_reconciler_deleted_entries_total",
    type: "counter",
    help: "Stale connection tracking entries deleted",
    labels: ["ip_family"],
  },
  iptablesRestoreFailures: {
    name: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    type: "counter",
    help: "iptables-restore runs that failed",
    labels: ["ip_family"],
  },
  buildInfo: {
    name: "kubernetes_build_info",
    type: "gauge",
    help: "1; the labels tell which release of kube-proxy this program behaves like",
    labels: ["major", "minor", "git_version", "platform"],
  },
  featureEnabled: {
    name: "kubernetes_feature_enabled",
    type: "gauge",
    help: "1: the feature gate is on; 0: off",
    labels: ["name", "stage"],
  },
  ownBuildInfo: {
    name: "kube_ipvs_build_info",
    type: "gauge",
    help: "1; the labels tell the versions of this program and of Node.js",
    labels: ["version", "node_version"],
  },
  syncRuns: {
    name: "kube_ipvs_sync_runs_total",
    type: "counter",
    help: "Syncs by kind (full: the whole kernel state was compared; partial: what changed) and result",
    labels: ["kind", "result"],
  },
  kernelChanges: {
    name: "kube_ipvs_kernel_changes_total",
    type: "counter",
    help: "Changes of kernel state by kind and result",
    labels: ["kind", "result"],
  },
  refusedObjects: {
    name: "kube_ipvs_refused_objects_total",
    type: "counter",
    help: "Parts of API objects or manifests that were left out because they are invalid, by reason",
    labels: ["resource", "reason"],
  },
  doubtedLists: {
    name: "kube_ipvs_doubted_lists_total",
    type: "counter",
    help: "Lists that would take away much of what is served (held), and what became of them (confirmed, refuted, expired)",
    labels: ["resource", "outcome"],
  },
  heldLists: {
    name: "kube_ipvs_held_lists",
    type: "gauge",
    help: "1: a list of this resource waits for a second one that confirms it",
    labels: ["resource"],
  },
  foreignVirtualServers: {
    name: "kube_ipvs_foreign_virtual_servers",
    type: "gauge",
    help: "Virtual servers in the kernel that are not ours",
    labels: [],
  },
  lostState: {
    name: "kube_ipvs_lost_state_total",
    type: "counter",
    help: "Times that sets or rules of ours were found changed by others between syncs",
    labels: ["state"],
  },
  drift: {
    name: "kube_ipvs_drift_total",
    type: "counter",
    help: "Things of ours in the kernel that others changed, by kind and what is done about it",
    labels: ["kind", "action"],
  },
  repairStorms: {
    name: "kube_ipvs_repair_storms",
    type: "gauge",
    help: "Things whose repair waits, since others undo it again and again, by kind",
    labels: ["kind"],
  },
  pendingChanges: {
    name: "kube_ipvs_pending_changes",
    type: "gauge",
    help: "Changes that the last sync left undone since it only observes, by kind",
    labels: ["kind"],
  },
  conflicts: {
    name: "kube_ipvs_frontend_conflicts",
    type: "gauge",
    help: "Addresses and ports of Services that are not served, or not bound to kube-ipvs0, by reason",
    labels: ["reason"],
  },
  drainingRealServers: {
    name: "kube_ipvs_draining_real_servers",
    type: "gauge",
    help: "Real servers with weight 0 that wait for their connections to end",
    labels: [],
  },
  oldestDrain: {
    name: "kube_ipvs_oldest_draining_real_server_age_seconds",
    type: "gauge",
    help: "Seconds since the oldest of the draining real servers began to drain; 0: none drains",
    labels: [],
  },
  eventLoopDelay: {
    name: "kube_ipvs_event_loop_delay_seconds",
    type: "histogram",
    help: "Seconds that a timer of the program came late, four samples a second",
    labels: [],
    buckets: "sync",
  },
  apiRequests: {
    name: "rest_client_requests_total",
    type: "counter",
    help: "Requests to the API server by HTTP status, method and host; code <error>: no answer came",
    labels: ["code", "method", "host"],
  },
  apiDuration: {
    name: "rest_client_request_duration_seconds",
    type: "histogram",
    help: "Seconds from a request to the API server to the end of its answer; watches are not observed",
    labels: ["verb", "host"],
    buckets: "request",
  },
  apiRequestSize: {
    name: "rest_client_request_size_bytes",
    type: "histogram",
    help: "Bytes of the bodies sent to the API server",
    labels: ["verb", "host"],
    buckets: "bytes",
  },
  apiResponseSize: {
    name: "rest_client_response_size_bytes",
    type: "histogram",
    help: "Bytes of the API server's answers, unpacked; watches are not observed",
    labels: ["verb", "host"],
    buckets: "bytes",
  },
} as const;

/** Upper bounds, in seconds or bytes. */
export const bucketLists: Readonly<Record<BucketList, readonly number[]>> = {
  /** 0.001 × 2^k for k from 0 to 14. */
  sync: Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power),
  /** Fine up to a minute, coarse up to five; begins at zero as upstream's list does. */
  latency: [...[0, 0.25, 0.5], ...range(1, 59, 1), ...range(60, 115, 5), ...range(120, 300, 30)],
  /** Those of client-go. */
  request: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
  bytes: [64, 256, 512, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216],
};

function range(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step) + 1;
  return Array.from({ length: count }, (_, index) => first + index * step);
}

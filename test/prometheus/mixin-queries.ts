/**
 * The queries of kubernetes-mixin's kube-proxy dashboard (proxy.json) and alerts, with the selector and interval filled
 * in. If a query returns nothing, this file and docs/metrics.md give the reason.
 */
export interface MixinQuery {
  readonly panel: string;
  readonly query: string;
  /** The reason why the query returns no series. Undefined if it returns any. */
  readonly without?: string;
}

const selector = 'cluster="lab", job="kube-proxy"';
const interval = "30s";

const rate = (name: string, labels = ""): string =>
  `rate(${name}{${selector}${labels}}[${interval}])`;

function apiRate(code: string): string {
  return `sum(${rate("rest_client_requests_total", `, code=~"${code}"`)})`;
}

function apiLatency(verb: string): string {
  const buckets = rate("rest_client_request_duration_seconds_bucket", `, verb="${verb}"`);
  return `histogram_quantile(0.99, sum(${buckets}) by (verb, le))`;
}

export const mixinQueries: readonly MixinQuery[] = [
  { panel: "Up", query: `sum(up{${selector}})` },
  {
    panel: "Rules Sync Rate",
    query: `sum(${rate("kubeproxy_sync_proxy_rules_duration_seconds_count")})`,
  },
  {
    panel: "Rules Sync Latency 99th Quantile",
    query: `histogram_quantile(0.99, ${rate("kubeproxy_sync_proxy_rules_duration_seconds_bucket")})`,
  },
  {
    panel: "Network Programming Rate",
    query: `sum(${rate("kubeproxy_network_programming_duration_seconds_count")})`,
  },
  {
    panel: "Network Programming Latency 99th Quantile",
    query: `histogram_quantile(0.99, sum(${rate("kubeproxy_network_programming_duration_seconds_bucket")}) by (instance, le))`,
  },
  { panel: "Kube API Request Rate 2xx", query: apiRate("2..") },
  { panel: "Kube API Request Rate 3xx", query: apiRate("3..") },
  { panel: "Kube API Request Rate 4xx", query: apiRate("4..") },
  { panel: "Kube API Request Rate 5xx", query: apiRate("5..") },
  { panel: "Post Request Latency 99th Quantile", query: apiLatency("POST") },
  { panel: "Get Request Latency 99th Quantile", query: apiLatency("GET") },
  { panel: "Memory", query: `process_resident_memory_bytes{${selector}}` },
  { panel: "CPU usage", query: rate("process_cpu_seconds_total") },
  {
    panel: "Goroutines",
    query: `go_goroutines{${selector}}`,
    without: "there are none; kube_ipvs_event_loop_delay_seconds tells whether the program is busy",
  },
  {
    panel: "alert KubeProxyDown",
    query: 'absent(up{job="kube-proxy"})',
    without: "it fires when nothing is scraped",
  },
  {
    panel: "alert KubeProxyInstanceUnreachable",
    query: 'up{job="kube-proxy"} == 0',
    without: "it fires when a scrape fails",
  },
];

/** What others see of a running kube-proxy: metrics, endpoints, events, log lines. */
import type { CompatibilityRow, CompatibilitySection } from "./compatibility.ts";
import { kubeProxyMetrics } from "./kube-proxy-metrics.ts";

const metrics: readonly CompatibilityRow[] = kubeProxyMetrics.map(({ name, differs }) => ({
  name,
  ...(differs === undefined ? {} : { differs }),
}));

const profile = "only with enableProfiling and for requests from the node itself";

const endpoints: readonly CompatibilityRow[] = [
  { name: "healthz address: /healthz" },
  { name: "healthz address: /livez" },
  { name: "healthz address: /readyz", differs: "kube-proxy has none" },
  {
    name: "health-check node ports",
    differs:
      "if a port cannot be opened on one address, it is served on the others and retried every 5 s instead of at the next sync",
  },
  { name: "metrics address: /healthz, /healthz/ping" },
  { name: "metrics address: /metrics" },
  {
    name: "metrics address: /metrics/slis",
    differs: "without process_start_time_seconds, which /metrics has",
  },
  { name: "metrics address: /proxyMode" },
  {
    name: "metrics address: /configz",
    differs: "includes the section kubeIpvs; shows the current values after a live reload",
  },
  {
    name: "metrics address: /flagz",
    differs: "text, JSON and YAML; no CBOR; passwords in URLs are redacted",
  },
  {
    name: "metrics address: /statusz",
    differs: "text, JSON and YAML; no CBOR; shows the version of Node.js instead of Go",
  },
  {
    name: "metrics address: /debug/pprof/, /debug/pprof/profile",
    differs: `${profile}; a CPU profile in V8's format of at most 25 s, and /debug/pprof/heap in numbers`,
  },
  {
    name: "metrics address: /debug/pprof/symbol, /debug/pprof/trace",
    differs: "absent: specific to the Go runtime",
  },
  { name: "metrics address: /debug/flags/v", differs: profile },
];

const events: readonly CompatibilityRow[] = [
  { name: "Starting" },
  {
    name: "FailedToStartProxierHealthcheck",
    differs: "delivered before exit if the API server responds within 0.3 s",
  },
  {
    name: "FailedToStartMetricServer",
    differs: "delivered before exit if the API server responds within 0.3 s",
  },
  {
    name: "FailedToStartServiceHealthcheck",
    differs: "once per minute while the port is in use, as one series, instead of at every sync",
  },
  {
    name: "IPVSDeprecation",
    differs: "absent: kube-ipvs always runs in this mode",
  },
];

const lines: readonly CompatibilityRow[] = [
  {
    name: "klog's text form",
    differs: "kube-ipvs:1 replaces Go's file and line, so that log collectors can parse it",
  },
  { name: "JSON form" },
  { name: "Using ipvs Proxier" },
  {
    name: "SyncProxyRules complete",
    differs:
      "at -v=2 and higher, one line per IP family with the duration of the sync of both families",
  },
];

/** Sections of the compatibility table. */
export const surfaces: readonly CompatibilitySection[] = [
  {
    title: "Metrics",
    head: "Metric",
    text: "See also [metrics.md](../metrics.md).",
    rows: metrics,
  },
  { title: "Endpoints", head: "Endpoint", rows: endpoints },
  {
    title: "Events",
    head: "Reason",
    text:
      "Additional Events on the Node: `CommandFailed` (kube-ipvs exits with an error); on Services: `AddressClaimed` (another Service has a better claim to the address and port), `ReservedAddress` (the node or " +
      "the API server needs the address), `ForeignVirtualServer` (a third party has the virtual server). At most 25 " +
      "per object in a burst, then one every five minutes.",
    rows: events,
  },
  { title: "Log lines", head: "Line", rows: lines },
];

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
  {
    name: "health-check node ports",
    differs:
      "a port that cannot be opened on one address is served on the others, and tried again every 5 s instead of at the next sync",
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
    differs:
      "kubeIpvs, our own section, is in it too; after a live reload it shows what counts by now",
  },
  {
    name: "metrics address: /flagz",
    differs: "text, JSON and YAML; no CBOR; passwords inside addresses are not shown",
  },
  {
    name: "metrics address: /statusz",
    differs: "text, JSON and YAML; no CBOR; the version of Node.js in the place of Go's",
  },
  {
    name: "metrics address: /debug/pprof/, /debug/pprof/profile",
    differs: `${profile}; a CPU profile in V8's format of at most 25 s, and /debug/pprof/heap in numbers`,
  },
  {
    name: "metrics address: /debug/pprof/symbol, /debug/pprof/trace",
    differs: "absent: they belong to the Go runtime",
  },
  { name: "metrics address: /debug/flags/v", differs: profile },
];

const events: readonly CompatibilityRow[] = [
  { name: "Starting" },
  {
    name: "FailedToStartProxierHealthcheck",
    differs: "delivered before the program ends, where the API server answers within 0.3 s",
  },
  {
    name: "FailedToStartMetricServer",
    differs: "delivered before the program ends, where the API server answers within 0.3 s",
  },
  {
    name: "FailedToStartServiceHealthcheck",
    differs: "once a minute while the port is taken, as one series, instead of at every sync",
  },
  {
    name: "IPVSDeprecation",
    differs: "absent: kube-ipvs is there to go on with this mode",
  },
];

const lines: readonly CompatibilityRow[] = [
  {
    name: "klog's text form",
    differs: "kube-ipvs:1 stands where Go programs name file and line, so that collectors read it",
  },
  { name: "JSON form" },
  { name: "Using ipvs Proxier" },
  {
    name: "SyncProxyRules complete",
    differs: "from -v=2 on, a line for each family with the time of the sync that served both",
  },
];

/** Sections of the compatibility table. */
export const surfaces: readonly CompatibilitySection[] = [
  {
    title: "Metrics",
    head: "Metric",
    text: "All that are exposed: [metrics.md](metrics.md).",
    rows: metrics,
  },
  { title: "Endpoints", head: "Endpoint", rows: endpoints },
  {
    title: "Events",
    head: "Reason",
    text:
      "Our own on Services: `AddressClaimed` (an older Service has the address and port), `ReservedAddress` (the node or " +
      "the API server needs the address), `ForeignVirtualServer` (other software has the virtual server). At most 25 " +
      "about one object at once, then one every five minutes.",
    rows: events,
  },
  { title: "Log lines", head: "Line", rows: lines },
];

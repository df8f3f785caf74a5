/** Our own HTTP servers. */
export const serverFields = [
  {
    path: "healthzBindAddress",
    kind: "listen",
    default: "",
    flag: "healthz-bind-address",
    help: "IP and port of /healthz and /livez (0.0.0.0:10256, or [::]:10256)",
  },
  {
    path: "metricsBindAddress",
    kind: "listen",
    default: "",
    flag: "metrics-bind-address",
    help: "IP and port of /metrics, /proxyMode, /configz (127.0.0.1:10249, or [::1]:10249)",
  },
  {
    path: "bindAddressHardFail",
    kind: "boolean",
    default: "false",
    flag: "bind-address-hard-fail",
    help: "end when a port cannot be opened, instead of trying again",
  },
  {
    path: "showHiddenMetricsForVersion",
    kind: "text",
    default: "",
    flag: "show-hidden-metrics-for-version",
    help: "the release before this one, 1.35: show metrics that are hidden since then",
    noEffect: "no metric is hidden",
  },
  {
    path: "enableProfiling",
    kind: "boolean",
    default: "false",
    flag: "profiling",
    help: "/debug/pprof/ and /debug/flags/v on the metrics address, for requests from this node",
    differs: "profiles are those of Node.js, and only requests from the node itself are answered",
  },
] as const;

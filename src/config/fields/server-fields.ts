/** Settings of kube-ipvs's HTTP servers. */
export const serverFields = [
  {
    path: "healthzBindAddress",
    kind: "listen",
    help: "IP and port of /healthz, /livez and /readyz (default 0.0.0.0:10256, or [::]:10256 if bindAddress is IPv6; the port is always 10356 with observeOnly)",
  },
  {
    path: "metricsBindAddress",
    kind: "listen",
    help: "IP and port of /metrics, /proxyMode and /configz (default 127.0.0.1:10249, or [::1]:10249 if bindAddress is IPv6; the port is always 10349 with observeOnly)",
  },
  {
    path: "bindAddressHardFail",
    kind: "boolean",
    help: "if a port cannot be opened, exit instead of retrying",
  },
  {
    path: "enableProfiling",
    kind: "boolean",
    flag: "profiling",
    help: "serve /debug/pprof/ and /debug/flags/v on the metrics address, but only to requests from this node",
  },
] as const;

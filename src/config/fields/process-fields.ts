/** Process settings: feature gates and OOM score. */
export const processFields = [
  {
    path: "featureGates",
    kind: "gates",
    help: "feature gates, as Name=true,...; unknown names are ignored with a warning",
  },
  {
    path: "oomScoreAdj",
    kind: "integer",
    default: "-999",
    keepsZero: true,
    min: -1000,
    max: 1000,
    isLive: true,
    help: "oom_score_adj of the process",
  },
] as const;

/** The kernel's connection-tracking limits. */
export const conntrackFields = [
  {
    path: "conntrack.maxPerCore",
    kind: "integer",
    default: "32768",
    keepsZero: true,
    min: 0,
    help: "maximum number of conntrack entries per CPU core; 0: keep the kernel's limit",
  },
  {
    path: "conntrack.min",
    kind: "integer",
    default: "131072",
    keepsZero: true,
    min: 0,
    help: "minimum conntrack limit, regardless of the number of cores",
  },
  {
    path: "conntrack.tcpEstablishedTimeout",
    kind: "duration",
    default: "24h",
    keepsZero: true,
    min: 0,
    flag: "conntrack-tcp-timeout-established",
    help: "conntrack timeout of idle TCP connections; 0s: keep the kernel's value",
  },
  {
    path: "conntrack.tcpCloseWaitTimeout",
    kind: "duration",
    default: "1h",
    keepsZero: true,
    min: 0,
    flag: "conntrack-tcp-timeout-close-wait",
    help: "conntrack timeout of TCP connections in CLOSE_WAIT; 0s: keep the kernel's value",
  },
  {
    path: "conntrack.tcpBeLiberal",
    kind: "boolean",
    help: "do not mark out-of-window TCP packets as invalid",
  },
  {
    path: "conntrack.udpTimeout",
    kind: "duration",
    default: "0s",
    min: 0,
    help: "conntrack timeout of UDP connections without replies; 0s: keep the kernel's value",
  },
  {
    path: "conntrack.udpStreamTimeout",
    kind: "duration",
    default: "0s",
    min: 0,
    flag: "conntrack-udp-timeout-stream",
    help: "conntrack timeout of UDP connections with replies; 0s: keep the kernel's value",
  },
] as const;

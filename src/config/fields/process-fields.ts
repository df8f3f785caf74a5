/** The process: feature gates, OOM score. */
export const processFields = [
  {
    path: "featureGates",
    kind: "gates",
    default: "",
    flag: "feature-gates",
    help: "Name=true,…; unknown names are an error",
    differs:
      "gates of every release from 1.28 on are known, and a gate that is locked or gone in 1.36 is told of and not refused",
  },
  {
    path: "oomScoreAdj",
    kind: "integer",
    default: "-999",
    keepsZero: true,
    min: -1000,
    max: 1000,
    flag: "oom-score-adj",
    help: "the process's oom_score_adj, from -1000 to 1000",
  },
] as const;

/** Kernel limits of connection tracking. */
export const conntrackFields = [
  {
    path: "conntrack.maxPerCore",
    kind: "integer",
    default: "32768",
    keepsZero: true,
    min: 0,
    flag: "conntrack-max-per-core",
    help: "tracked connections per CPU core; 0: leave the kernel's limit",
  },
  {
    path: "conntrack.min",
    kind: "integer",
    default: "131072",
    keepsZero: true,
    min: 0,
    flag: "conntrack-min",
    help: "tracked connections at least, whatever the number of cores",
  },
  {
    path: "conntrack.tcpEstablishedTimeout",
    kind: "duration",
    default: "24h",
    keepsZero: true,
    min: 0,
    flag: "conntrack-tcp-timeout-established",
    help: "time-out of idle TCP connections; 0s: leave",
  },
  {
    path: "conntrack.tcpCloseWaitTimeout",
    kind: "duration",
    default: "1h",
    keepsZero: true,
    min: 0,
    flag: "conntrack-tcp-timeout-close-wait",
    help: "time-out of half-closed TCP connections; 0s: leave",
  },
  {
    path: "conntrack.tcpBeLiberal",
    kind: "boolean",
    default: "false",
    flag: "conntrack-tcp-be-liberal",
    help: "do not take TCP packets outside the window for invalid",
  },
  {
    path: "conntrack.udpTimeout",
    kind: "duration",
    default: "0s",
    min: 0,
    flag: "conntrack-udp-timeout",
    help: "time-out of UDP flows without answer; 0s: leave",
  },
  {
    path: "conntrack.udpStreamTimeout",
    kind: "duration",
    default: "0s",
    min: 0,
    flag: "conntrack-udp-timeout-stream",
    help: "time-out of UDP flows with answers; 0s: leave",
  },
] as const;

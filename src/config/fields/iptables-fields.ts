/** Settings for iptables mode only. `iptables.masquerade*` is in ipvs-fields.ts, because IPVS mode uses it too. */
export const iptablesFields = [
  {
    path: "iptables.syncPeriod",
    kind: "duration",
    default: "30s",
    isPositive: true,
    help: "maximum interval between syncs in iptables mode",
  },
  {
    path: "iptables.minSyncPeriod",
    kind: "duration",
    default: "1s",
    min: 0,
    help: "minimum interval between syncs in iptables mode",
  },
  {
    path: "iptables.localhostNodePorts",
    kind: "boolean",
    default: "true",
    keepsZero: true,
    flag: "iptables-localhost-nodeports",
    help: "serve node ports on IPv4 loopback addresses; this sets route_localnet",
  },
] as const;

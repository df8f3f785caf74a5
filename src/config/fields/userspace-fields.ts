/** Settings of userspace mode under the key `kubeIpvs`; see own-fields.ts. */
export const userspaceFields = [
  {
    path: "kubeIpvs.udpTimeout",
    kind: "duration",
    default: "250ms",
    min: 1,
    flag: "udp-timeout",
    help: "userspace mode: a UDP client that has been idle for this long may be sent to a different endpoint",
  },
  {
    path: "kubeIpvs.userspaceMaxConnections",
    kind: "integer",
    default: "16384",
    isPositive: true,
    max: 1_000_000,
    flag: "userspace-max-connections",
    help: "userspace mode: maximum number of TCP connections and UDP clients across all Services. A low open-file limit reduces this maximum",
  },
  {
    path: "kubeIpvs.userspaceMaxServiceConnections",
    kind: "integer",
    default: "4096",
    isPositive: true,
    max: 1_000_000,
    flag: "userspace-max-service-connections",
    help: "userspace mode: maximum number of TCP connections and UDP clients per Service, capped at a quarter of kubeIpvs.userspaceMaxConnections. At the limit, new TCP connections are closed, and a new UDP client replaces the one that has been idle longest",
  },
] as const;

/** Third-party changes in a soak, made with the operator's tools. They never affect the clients' connections. */
import { clusterIpOf, endpointOf } from "../support/many-services.ts";
import { shell } from "../support/netns/network-namespace.ts";

/** A third-party change to the kernel state. */
export interface Intrusion {
  readonly name: string;
  /** `index` is the number of a Service that always exists with its first endpoint. */
  readonly shellLine: (index: number) => string;
}

const port = (index: number): string => `${clusterIpOf(index)}:80`;
const realServer = (index: number): string => `${endpointOf(index, 0)}:8080`;

export const intrusions: readonly Intrusion[] = [
  { name: "virtual server deleted", shellLine: (index) => `ipvsadm -D -t ${port(index)}` },
  {
    name: "real server deleted",
    shellLine: (index) => `ipvsadm -d -t ${port(index)} -r ${realServer(index)}`,
  },
  {
    name: "weight changed",
    shellLine: (index) => `ipvsadm -e -t ${port(index)} -r ${realServer(index)} -m -w 7`,
  },
  {
    name: "set entry deleted",
    shellLine: (index) => `ipset del KUBE-CLUSTER-IP ${clusterIpOf(index)},tcp:80`,
  },
  {
    name: "address deleted",
    shellLine: (index) => `ip address delete ${clusterIpOf(index)}/32 dev kube-ipvs0`,
  },
  { name: "chain flushed", shellLine: () => "iptables -F KUBE-FORWARD" },
  {
    name: "all rules flushed",
    shellLine: () => "iptables -t nat -F; iptables -t filter -F",
  },
];

/**
 * Tracks connections, as other software on a node does, in a table that no test flushes. When the last rule that needs
 * tracking is deleted, the kernel stops tracking in this namespace (nf_ct_netns_put in xt_conntrack and the nat table),
 * and masqueraded connections break with any proxy.
 */
export function trackConnections(): void {
  shell("iptables -t mangle -A PREROUTING -m conntrack --ctstate INVALID -j RETURN");
}

/** Makes the change on the Service with this number. */
export function intrude({ shellLine }: Intrusion, index: number): void {
  shell(shellLine(index));
}

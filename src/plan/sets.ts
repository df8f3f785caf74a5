/** The sets of each family. Names and types are those of kube-proxy's IPVS mode, apart from the set of Nodes. */
import type { IpFamily } from "../base/ip.ts";
import type { IpSet, IpSetType } from "../state/ip-set.ts";

interface SetSpec {
  readonly suffix: string;
  readonly type: IpSetType;
}

export type SetRole =
  | "loopBack"
  | "clusterIp"
  | "externalIp"
  | "externalIpLocal"
  | "loadBalancer"
  | "loadBalancerFirewall"
  | "loadBalancerLocal"
  | "loadBalancerSourceIp"
  | "loadBalancerSourceCidr"
  | "nodePortTcp"
  | "nodePortLocalTcp"
  | "nodePortUdp"
  | "nodePortLocalUdp"
  | "nodePortSctp"
  | "nodePortLocalSctp"
  | "healthCheckNodePort"
  | "ipvsIps"
  | "tunnelNodes";

/** In creation order. `set-entries.ts` plans their entries; `rules.ts` contains the rules that match them. */
const specs: Readonly<Record<SetRole, SetSpec>> = {
  /** Local endpoints. A pod that reaches itself through a virtual IP must be masqueraded. */
  loopBack: { suffix: "LOOP-BACK", type: "hash:ip,port,ip" },
  clusterIp: { suffix: "CLUSTER-IP", type: "hash:ip,port" },
  externalIp: { suffix: "EXTERNAL-IP", type: "hash:ip,port" },
  externalIpLocal: { suffix: "EXTERNAL-IP-LOCAL", type: "hash:ip,port" },
  loadBalancer: { suffix: "LOAD-BALANCER", type: "hash:ip,port" },
  /** Load-balancer IPs whose Services have source ranges. */
  loadBalancerFirewall: { suffix: "LOAD-BALANCER-FW", type: "hash:ip,port" },
  loadBalancerLocal: { suffix: "LOAD-BALANCER-LOCAL", type: "hash:ip,port" },
  /** Admits the node itself, whose packets to a virtual IP have that IP as their source. */
  loadBalancerSourceIp: { suffix: "LOAD-BALANCER-SOURCE-IP", type: "hash:ip,port,ip" },
  loadBalancerSourceCidr: { suffix: "LOAD-BALANCER-SOURCE-CIDR", type: "hash:ip,port,net" },
  nodePortTcp: { suffix: "NODE-PORT-TCP", type: "bitmap:port" },
  nodePortLocalTcp: { suffix: "NODE-PORT-LOCAL-TCP", type: "bitmap:port" },
  nodePortUdp: { suffix: "NODE-PORT-UDP", type: "bitmap:port" },
  nodePortLocalUdp: { suffix: "NODE-PORT-LOCAL-UDP", type: "bitmap:port" },
  /** bitmap:port matches TCP and UDP only, so the SCTP sets contain node addresses and ports. */
  nodePortSctp: { suffix: "NODE-PORT-SCTP-HASH", type: "hash:ip,port" },
  nodePortLocalSctp: { suffix: "NODE-PORT-LOCAL-SCTP-HASH", type: "hash:ip,port" },
  healthCheckNodePort: { suffix: "HEALTH-CHECK-NODE-PORT", type: "bitmap:port" },
  /** Addresses bound to kube-ipvs0. */
  ipvsIps: { suffix: "IPVS-IPS", type: "hash:ip" },
  /** Addresses of other Nodes, which may send tunneled packets. Exists only if a Service uses tunnel forwarding. */
  tunnelNodes: { suffix: "IPVS-NODES", type: "hash:ip" },
};

export const setRoles: readonly SetRole[] = Object.keys(specs) as SetRole[];

/** kube-proxy creates every hash set with this capacity and rejects existing sets that differ. */
export const standardMaxElements = 65_536;

/**
 * A hash set's capacity for `entryCount` entries. Capacities above the standard one are powers of two, so that a
 * growing set is rarely recreated.
 */
export function capacityFor(entryCount: number): number {
  return Math.max(standardMaxElements, 2 ** Math.ceil(Math.log2(Math.max(entryCount, 1))));
}

/** Name of a set's replacement until the swap. It is not longer than the set's name, so it never exceeds the limit. */
export function temporaryNameOf(setName: string): string {
  return `KTMP-${setName.slice("KUBE-".length)}`;
}

/** IPSET_MAXNAMELEN in linux/netfilter/ipset/ip_set.h, minus the terminating NUL. */
const maxNameBytes = 31;

const sets: ReadonlyMap<IpFamily, ReadonlyMap<SetRole, IpSet>> = new Map([
  ["IPv4", setsOf("IPv4")],
  ["IPv6", setsOf("IPv6")],
]);

export function setFor(role: SetRole, family: IpFamily): IpSet {
  const set = sets.get(family)?.get(role);
  if (set === undefined) throw new Error(`No set for ${role} in ${family}`);
  return set;
}

/** The sets that always exist, in creation order. They are those of kube-proxy. */
export function setsFor(family: IpFamily): readonly IpSet[] {
  const nodes = setFor("tunnelNodes", family);
  return allSetsFor(family).filter((set) => set !== nodes);
}

/** All of a family's sets, including the set of Nodes. */
export function allSetsFor(family: IpFamily): readonly IpSet[] {
  return setRoles.map((role) => setFor(role, family));
}

function setsOf(family: IpFamily): ReadonlyMap<SetRole, IpSet> {
  return new Map(setRoles.map((role) => [role, makeSet(role, family)]));
}

/** Cuts IPv6 names at the kernel's limit, as kube-proxy does: KUBE-6-LOAD-BALANCER-SOURCE-CID. */
function makeSet(role: SetRole, family: IpFamily): IpSet {
  const { suffix, type } = specs[role];
  const prefix = family === "IPv4" ? "KUBE-" : "KUBE-6-";
  const name = `${prefix}${suffix}`.slice(0, maxNameBytes);
  return { name, type, family, maxElements: standardMaxElements };
}

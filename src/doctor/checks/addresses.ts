/** Checks for conflicts between virtual IPs and host addresses, and checks ARP settings and the MTU of tunnels. */
import { counted } from "../../base/counted.ts";
import {
  broadcastOf,
  type Cidr,
  cidrContains,
  cidrText,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  parseCidr,
} from "../../base/ip.ts";
import { type Check, check, fail, ipvsMode, listed, naming, ok, unknown, warn } from "../check.ts";
import type { AddressFacts, OtherNode } from "../node.ts";
import { clusterOf } from "./cluster.ts";

/** The link that node-local DNS creates, unless -interfacename is set. */
const dnsLink = "nodelocaldns";

/** Bytes that each kind of tunnel adds to an IP packet, if the outer packet is IPv4. */
export const tunnelHeaderBytes: ReadonlyMap<string, number> = new Map([
  ["vxlan", 50],
  ["geneve", 50],
  ["ipip", 20],
  ["sit", 20],
  ["gre", 24],
  ["gretap", 38],
  ["wireguard", 60],
]);

export const addressChecks: readonly Check[] = [
  check({
    name: "vip-collisions",
    modes: ipvsMode,
    needs: ["installed"],
    why: "this node answers for the addresses on kube-ipvs0, so it cannot reach another host that has one of them",
    read: async ({ addresses, cluster }) => ({
      found: await addresses(),
      others: "skipped" in cluster ? [] : await cluster.otherNodes().catch(() => []),
    }),
    judge({ found, others }) {
      const dns = found.virtualIps.filter((address) =>
        found.own.some((own) => own.address === address && own.link === dnsLink),
      );
      const collisions = collisionsOf(found, others);
      if (collisions.length > 0 && collisions.length === dns.length) {
        return warn(
          `node-local DNS listens at ${dns.join(" and ")} on link ${dnsLink}, but IPVS intercepts packets to this address`,
          `set kubeIpvs.unboundAddresses: [${dns.join(", ")}], or give node-local DNS only 169.254.20.10 and set it as the kubelets' clusterDNS`,
        );
      }
      if (collisions.length > 0) {
        const judgement = fail(
          listed(collisions),
          "remove the addresses from other links (ip -br address), or give these Services other addresses; list the addresses in kubeIpvs.unboundAddresses if software on this node must have them, or set kubeIpvs.reservedAddresses: refuse and restart kube-ipvs",
        );
        return naming(
          judgement,
          others.map(({ name }) => name),
          [],
        );
      }
      const overlaps = overlapsOf(found);
      if (overlaps.length > 0) {
        return warn(
          listed(overlaps),
          "change the service range or the node's network so that they do not overlap",
        );
      }
      const count = counted(found.virtualIps.length, "virtual IP");
      const compared = others.length > 0 ? ` or ${counted(others.length, "other node")}` : "";
      return ok(
        `${count}; none is an address of this node${compared}, a gateway address or a broadcast address`,
      );
    },
  }),
  check({
    name: "conflicts",
    needs: ["installed", "daemon"],
    why: "a Service is not served at an address and port that another Service owns: clients reach the other Service",
    read: (node) => node.daemon(),
    judge(daemon) {
      if ("skipped" in daemon) return unknown(daemon.skipped);
      const { conflicts, counts } = daemon;
      if (conflicts.length === 0)
        return ok("every Service is served at the addresses and ports that it requests");
      const found = conflicts.map(
        ({ service, message, reason }) => `${service}: ${message} (${reason})`,
      );
      const remedies = new Set(conflicts.map(({ remedy }) => remedy));
      return naming(
        warn(listed(found, counts.conflicts), listed([...remedies])),
        [],
        conflicts.map(({ service }) => service),
      );
    },
  }),
  check({
    name: "tunnel-mtu",
    why: "packets that are too large for the link below a tunnel are fragmented or lost: small requests work, but large responses hang",
    read: (node) => node.tunnels(),
    judge(tunnels) {
      const tooLarge = tunnels.flatMap(({ name, kind, mtuBytes, below }) => {
        const header = tunnelHeaderBytes.get(kind) ?? 0;
        const most = below.mtuBytes - header;
        if (mtuBytes <= most) return [];
        const text = `packets of ${name} (${kind}) have up to ${mtuBytes + header} bytes with their outer headers, but ${below.name} carries at most ${below.mtuBytes}`;
        return [{ text, remedy: `ip link set ${name} mtu ${most}` }];
      });
      if (tooLarge.length === 0)
        return ok(`${counted(tunnels.length, "tunnel")}; their packets fit the links below`);
      return warn(
        listed(tooLarge.map(({ text }) => text)),
        `${listed(tooLarge.map(({ remedy }) => remedy))}, and set the MTU in the network plugin's configuration`,
      );
    },
  }),
  check({
    name: "strict-arp",
    modes: ipvsMode,
    needs: ["cluster"],
    why: "without strict ARP, every node answers ARP for the addresses that MetalLB announces",
    read: (node) => clusterOf(node).metalLb(),
    judge(seen, { strictARP }) {
      if (seen === undefined) return ok("MetalLB was not detected");
      const { evidence, service } = seen;
      const judgement = strictARP
        ? ok(`${evidence}; strict ARP is on`)
        : warn(
            `${evidence}; strict ARP is off`,
            "set ipvs.strictARP: true, unless MetalLB uses only BGP",
          );
      return naming(judgement, [], service === undefined ? [] : [service]);
    },
  }),
];

function collisionsOf(facts: AddressFacts, others: readonly OtherNode[]): readonly string[] {
  const owners = new Map<IpAddress, string>();
  for (const { name, addresses } of others) {
    for (const address of addresses) owners.set(address, `an address of node ${name}`);
  }
  for (const gateway of facts.gateways) owners.set(gateway, "a gateway of this node");
  for (const network of facts.own.map(networkOf)) {
    const broadcast = broadcastOf(network);
    if (broadcast !== undefined)
      owners.set(broadcast, `the broadcast address of ${cidrText(network)}`);
  }
  for (const { address } of facts.own) owners.set(address, "an address of this node");
  return facts.virtualIps.flatMap((address) => {
    const owner = owners.get(address);
    return owner === undefined ? [] : [`${address} is ${owner}`];
  });
}

/** Cluster IPs must not be in the node's network. Load-balancer IPs may be. */
function overlapsOf({ clusterIps, own }: AddressFacts): readonly string[] {
  const networks = own
    .filter(({ address, prefixLength }) => prefixLength < hostPrefixLength(familyOf(address)))
    .map(networkOf);
  return clusterIps.flatMap((address) => {
    const network = networks.find((one) => cidrContains(one, address));
    return network === undefined
      ? []
      : [`cluster IP ${address} is in the node's network ${cidrText(network)}`];
  });
}

/** Returns the network of an address, with the host bits cleared. */
function networkOf(own: AddressFacts["own"][number]): Cidr {
  return parseCidr(`${own.address}/${own.prefixLength}`) ?? own;
}

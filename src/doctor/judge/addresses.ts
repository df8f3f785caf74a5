/** Virtual IPs beside the addresses of everybody else, and who answers for them. Pure. */
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
import { fail, type Judgement, listed, ok, warn } from "../check.ts";
import { type AddressFacts, judging, type NodeFacts, type OtherNode } from "../facts.ts";

export function judgeCollisions({ addresses, cluster }: NodeFacts): Judgement {
  return judging(addresses, (found) => {
    const others =
      "otherNodes" in cluster && "value" in cluster.otherNodes ? cluster.otherNodes.value : [];
    const collisions = collisionsOf(found, others);
    if (collisions.length > 0) {
      const remedy =
        "give these Services other addresses, or set kubeIpvs.reservedAddresses: refuse and restart kube-ipvs";
      return fail(listed(collisions), remedy);
    }
    const overlaps = overlapsOf(found);
    if (overlaps.length > 0) {
      const remedy =
        "the service range must not overlap a network that a node is in: change one of them";
      return warn(listed(overlaps), remedy);
    }
    const count = counted(found.virtualIps.length, "virtual IP");
    const compared = others.length > 0 ? ` and of ${counted(others.length, "other node")}` : "";
    return ok(
      `${count}, none is an address of this node${compared}, of a gateway or a broadcast address`,
    );
  });
}

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

/** Load-balancer IPs may well be in the node's network; cluster IPs never. */
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

/** Without the host's bits. */
function networkOf(own: AddressFacts["own"][number]): Cidr {
  return parseCidr(`${own.address}/${own.prefixLength}`) ?? own;
}

export function judgeStrictArp({ cluster, isStrictArp }: NodeFacts): Judgement {
  if ("skipped" in cluster) return { verdict: "unknown", evidence: cluster.skipped };
  return judging(cluster.metalLb, (seen) => {
    if (seen === undefined) return ok("no MetalLB seen");
    if (isStrictArp) return ok(`${seen}; strict ARP is on`);
    return warn(
      `${seen}; strict ARP is off`,
      "set ipvs.strictARP: true, unless MetalLB uses BGP only",
    );
  });
}

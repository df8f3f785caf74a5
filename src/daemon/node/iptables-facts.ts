/** Facts about this node that planning needs only in iptables mode. Pure. */
import { cidrContains, hostPrefixLength, type IpFamily } from "../../base/ip.ts";
import type { IptablesFamilyOptions, IptablesNodeOptions } from "../../plan/iptables/options.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { FamilyOptions, PlanOptions } from "../../plan/options.ts";
import { type NodeFacts, nodePortNetworks } from "./node-facts.ts";

export interface IptablesFacts extends Pick<NodeFacts, "config" | "node"> {
  /** Options that planning needs in every mode. */
  readonly shared: PlanOptions;
  readonly hasCounters: boolean;
}

export function iptablesOptionsOf(facts: IptablesFacts): IptablesNodeOptions {
  const { shared, hasCounters, config } = facts;
  return {
    shared,
    families: new Map(
      [...shared.families].map(([family, options]) => [
        family,
        familyOptions(family, options, facts),
      ]),
    ),
    hasCounters,
    isTcpLiberal: config.conntrack.isTcpLiberal,
  };
}

/**
 * Includes loopback if nodePortAddresses does not restrict this family or names a network that contains 127.0.0.1.
 */
function familyOptions(
  family: IpFamily,
  { nodePortAddresses }: FamilyOptions,
  { config, node }: IptablesFacts,
): IptablesFamilyOptions {
  const networks = nodePortNetworks(family, config, node);
  const servesAllAddresses = networks.length === 0;
  const isLoopbackNamed = networks.some((network) => cidrContains(network, loopback));
  const servesLoopback =
    family === "IPv4" && config.servesLoopbackNodePorts && (servesAllAddresses || isLoopbackNamed);
  const addresses = new Set([...nodePortAddresses, ...(servesLoopback ? [loopback] : [])]);
  return {
    servesAllAddresses,
    nodePortAddresses: servesAllAddresses
      ? []
      : [...addresses].sort().map((address) => `${address}/${hostPrefixLength(family)}`),
    servesLoopback,
  };
}

const loopback = loopbackAddresses.IPv4;

/** Facts about this node that planning needs only in iptables mode. Pure. */
import { type Cidr, cidrContains, hostPrefixLength, type IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
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
    tcpBeLiberal: config.conntrack.tcpBeLiberal,
  };
}

function familyOptions(
  family: IpFamily,
  { nodePortAddresses }: FamilyOptions,
  { config, node }: IptablesFacts,
): IptablesFamilyOptions {
  const networks = nodePortNetworks(family, config, node);
  const servesAllAddresses = networks.length === 0;
  const servesLoopback = family === "IPv4" && iptablesLocalhostNodePorts(config, networks);
  const addresses = new Set([...nodePortAddresses, ...(servesLoopback ? [loopback] : [])]);
  return {
    servesAllAddresses,
    nodePortAddresses: servesAllAddresses
      ? []
      : [...addresses].sort().map((address) => `${address}/${hostPrefixLength(family)}`),
    servesLoopback,
  };
}

/** Whether node ports on loopback are enabled, and nodePortAddresses is empty or includes 127.0.0.1. */
export function iptablesLocalhostNodePorts(
  config: Pick<Config, "iptablesLocalhostNodePorts">,
  networks: readonly Cidr[],
): boolean {
  const isNamed = networks.length === 0 || networks.some((one) => cidrContains(one, loopback));
  return config.iptablesLocalhostNodePorts && isNamed;
}

const loopback = loopbackAddresses.IPv4;

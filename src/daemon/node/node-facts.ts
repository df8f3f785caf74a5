/** Facts about this node that planning needs, from its Node object, its links and the configuration. Pure. */
import type { NodeRecord } from "../../api/objects.ts";
import {
  type Cidr,
  cidrContains,
  cidrText,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  isLoopback,
  isWildcard,
  wildcardAddresses,
} from "../../base/ip.ts";
import { Networks } from "../../base/networks.ts";
import type { Config } from "../../config/config.ts";
import { loopbackAddresses } from "../../plan/loopback-node-ports.ts";
import type { FamilyOptions, LocalDetector, PlanOptions } from "../../plan/options.ts";
import type { FamilyFacts } from "./family-check.ts";
import type { NodeNetwork } from "./node-network.ts";

export interface NodeFacts extends FamilyFacts {
  readonly network: NodeNetwork;
}

export function planOptionsOf(facts: NodeFacts): PlanOptions {
  const { config, node } = facts;
  return {
    place: { nodeName: config.nodeName, zone: node?.zone ?? "" },
    families: new Map(facts.families.map((family) => [family, familyOptions(family, facts)])),
    scheduler: config.scheduler,
    extraSchedulers: config.extraSchedulers,
    tuning: tuningOf(config),
    areWeightsRequested: config.weightRequestPeriodMs > 0,
    areExternalIpsIgnored: config.featureGates.get("AllowServiceExternalIPs") === false,
    masqueradeAll: config.masqueradeAll,
    masqueradeMark: config.masqueradeMark,
    ...(config.portRangeMarks === undefined ? {} : { portRangeMarks: config.portRangeMarks }),
    ...(config.tunnelForwarding ? { tunnels: tunnelsOf(facts) } : {}),
  };
}

/** The default tuning of Services. Only annotations can set `maxConnections.lower`. */
function tuningOf(config: Config): NonNullable<PlanOptions["tuning"]> {
  const { schedulerFlags, onePacket, maxConnections, weights } = config;
  const { slowStartMs, outlierEjectionMs } = config;
  return {
    ...(schedulerFlags === undefined ? {} : { schedulerFlags }),
    ...{ onePacket, weights, slowStartMs, outlierEjectionMs },
    maxConnections: { upper: maxConnections, lower: 0 },
  };
}

/** Tunnels are not used if other software has a link of the same kind, because a packet reaches only one such link. */
function tunnelsOf({ config, network }: NodeFacts): NonNullable<PlanOptions["tunnels"]> {
  const [other] = network.otherTunnels ?? [];
  if (config.portRangeMarks === undefined) return { problem: "kubeIpvs.portRangeMarks is not set" };
  if (other === undefined) return {};
  return { problem: `link ${other} of other software on node ${config.nodeName} uses tunnels` };
}

function familyOptions(family: IpFamily, facts: NodeFacts): FamilyOptions {
  const { ofNode, reserved, podNetworks, apiServers, isIpv6Disabled } = facts.network;
  const detector = localDetector(family, facts);
  const { answerPing, masqueradeNodeToLocal, strictSourceRanges } = facts.config;
  const unbound = facts.config.unboundAddresses;
  return {
    nodeIp: nodeIpOf(family, facts.config, facts.node),
    nodeAddresses: new Set([...ofNode].filter((ip) => familyOf(ip) === family)),
    nodePortAddresses: nodePortAddresses(family, facts),
    reserved: new Map([...reserved].filter(([ip]) => familyOf(ip) === family)),
    podNetworks,
    apiServers: [...apiServers].sort(),
    ...(family === "IPv6" && isIpv6Disabled ? { isLinkDisabled: true } : {}),
    isReservedRefused: facts.config.reservedAddresses === "refuse",
    ...(unbound.length === 0 ? {} : { unboundNetworks: new Networks(unbound) }),
    ...(detector === undefined ? {} : { localDetector: detector }),
    edges: { answerPing, masqueradeNodeToLocal, strictSourceRanges },
  };
}

/**
 * The node's address in a family: bindAddress if it is a specific address of this family, else the Node object's
 * first address (InternalIP before ExternalIP), else loopback.
 */
function nodeIpOf(
  family: IpFamily,
  config: Pick<Config, "bindAddress">,
  node: NodeRecord | undefined,
): IpAddress {
  const { bindAddress } = config;
  if (!isWildcard(bindAddress) && familyOf(bindAddress) === family) return bindAddress;
  const own = node?.addresses.find((address) => familyOf(address) === family);
  return own ?? loopbackAddresses[family];
}

/** Addresses of the health-check node port listeners: the wildcard address, unless nodePortAddresses lists networks. */
export function healthCheckAddresses(
  facts: NodeFacts,
): ReadonlyMap<IpFamily, readonly IpAddress[]> {
  const addressesOf = (family: IpFamily): readonly IpAddress[] =>
    nodePortNetworks(family, facts.config, facts.node).length === 0
      ? [wildcardAddresses[family]]
      : nodePortAddresses(family, facts);
  return new Map(facts.families.map((family) => [family, addressesOf(family)]));
}

/** Node addresses that serve node ports: all, only the primary address, or those inside the configured networks. */
function nodePortAddresses(
  family: IpFamily,
  { config, node, network }: NodeFacts,
): readonly IpAddress[] {
  const networks = nodePortNetworks(family, config, node);
  const all = [...network.ofNode].filter((address) => familyOf(address) === family).sort();
  if (networks.length === 0) return all;
  return all.filter((address) => networks.some((cidr) => cidrContains(cidr, address)));
}

/**
 * Networks of this family to which node ports are restricted. Empty means no restriction. As in kube-proxy, there is
 * also no restriction if all configured networks are in the other family.
 */
export function nodePortNetworks(
  family: IpFamily,
  config: Config,
  node: NodeRecord | undefined,
): readonly Cidr[] {
  if (config.nodePortAddresses.kind === "all") return [];
  if (config.nodePortAddresses.kind === "primary") {
    const address = nodeIpOf(family, config, node);
    if (isLoopback(address)) return [];
    return [{ address, prefixLength: hostPrefixLength(family) }];
  }
  const ofFamily = config.nodePortAddresses.cidrs.filter(
    (cidr) => familyOf(cidr.address) === family,
  );
  return ofFamily.some((cidr) => cidr.prefixLength === 0) ? [] : ofFamily;
}

function localDetector(family: IpFamily, { config, node }: NodeFacts): LocalDetector | undefined {
  const local = config.detectLocal;
  switch (local.kind) {
    case "cluster-cidr":
      return firstNetwork(family, local.cidrs);
    case "node-cidr":
      return firstNetwork(family, node?.podCidrs ?? []);
    case "bridge-interface":
      return { kind: "in-interface", name: local.name };
    case "interface-prefix":
      return { kind: "in-interface", name: `${local.prefix}+` };
  }
}

function firstNetwork(family: IpFamily, cidrs: readonly Cidr[]): LocalDetector | undefined {
  const cidr = cidrs.find(({ address }) => familyOf(address) === family);
  return cidr === undefined ? undefined : { kind: "source", cidr: cidrText(cidr) };
}

/** Compares options by their JSON text, which is cheap because they are small and plain. */
export function sameOptions(left: PlanOptions, right: PlanOptions): boolean {
  return optionsText(left) === optionsText(right);
}

function optionsText(options: PlanOptions): string {
  const families = [...options.families].map(([family, { nodeAddresses, reserved, ...rest }]) => [
    family,
    [...nodeAddresses].sort(),
    [...(reserved ?? [])].sort(),
    rest,
  ]);
  return JSON.stringify({ ...options, families });
}

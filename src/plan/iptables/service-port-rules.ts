/** The rules of one service port: its own chains, and its part in the chains that all share. Pure. */
import { type Cidr, cidrContains, cidrText, type IpAddress } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import { type ServicePort, servicePortName } from "../../model/service-port.ts";
import { isExternallyAccessible } from "../../model/service-ports.ts";
import { type ChosenEndpoints, chooseEndpoints } from "../../model/topology.ts";
import type { Chain, Match, Rule, Target } from "../../state/rule.ts";
import { type ClaimedKey, claimKey, claimsOf, nodePortClaim } from "../claims/claimed-keys.ts";
import { type Frontend, frontendsOf } from "../frontends.ts";
import type { FamilyOptions, LocalDetector } from "../options.ts";
import { type ServicePortChains, servicePortChains } from "./chain-names.ts";
import { endpointRules, type ListedEndpoint, listEndpoints } from "./endpoint-rules.ts";
import { countedLocalhost, loopbackNetwork } from "./fixed-chains.ts";
import type { IptablesFamilyOptions, IptablesOptions } from "./options.ts";
import {
  accept,
  comment,
  destination,
  destinationIsLocal,
  drop,
  hostNetwork,
  jumpTo,
  type RuleProtocol,
  rule,
  ruleProtocol,
  source,
  sourceIsLocal,
  toMarkMasq,
} from "./rule-words.ts";
import type { SharedChainKey, SharedRule } from "./shared-chains.ts";
import { type UdpFlows, udpFlowsOf } from "./udp-flows.ts";

/** All that one service port wants in the tables of its family. */
export interface ServicePortRules {
  readonly servicePort: ServicePort;
  /** Chains of nat that are its own. */
  readonly chains: readonly Chain[];
  readonly shared: readonly SharedRule[];
  /** Addresses and ports that its rules are about. */
  readonly claims: readonly ClaimedKey[];
  /** Of all endpoints, whether they are used here or not. */
  readonly endpointCount: number;
  /** The service port has traffic policy Local, usable endpoints somewhere, and none here. */
  readonly hasNoLocalEndpoints: { readonly internal: boolean; readonly external: boolean };
  /** Which conntrack entries may stay; UDP only. */
  readonly udpFlows?: UdpFlows;
}

/** What planning a service port needs besides itself and its endpoints. */
export interface IptablesContext {
  readonly options: IptablesOptions;
  readonly family: FamilyOptions;
  readonly own: IptablesFamilyOptions;
}

interface Subject extends IptablesContext {
  readonly port: ServicePort;
  /** `namespace/name:port` */
  readonly name: string;
  readonly protocol: RuleProtocol;
  readonly chains: ServicePortChains;
  /** Each with its chain. */
  readonly cluster: readonly ListedEndpoint[];
  readonly local: readonly ListedEndpoint[];
  readonly hasUsable: boolean;
  /** Endpoints that traffic to the cluster IP, and traffic from outside, may reach. */
  readonly hasInternal: boolean;
  readonly hasExternal: boolean;
  readonly frontends: readonly Frontend[];
  /** Addresses that are served, see {@link frontendsOf}. */
  readonly externalIps: readonly IpAddress[];
  readonly loadBalancerIps: readonly IpAddress[];
  readonly usesFirewall: boolean;
}

/** Plans one service port. Equal input gives equal output, and nothing else is looked at. */
export function planServicePortRules(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  context: IptablesContext,
): ServicePortRules {
  const chosen = chooseEndpoints(endpoints, port, context.options.shared.place);
  const subject = subjectOf(port, chosen, context);
  const flows = udpFlowsOf(port, endpoints, context.family);
  return {
    servicePort: port,
    chains: subject.hasUsable ? ownChains(subject) : none,
    shared: sharedRules(subject),
    claims: claimsOf(port, subject.frontends),
    endpointCount: endpoints.length,
    hasNoLocalEndpoints: {
      internal: port.isInternalPolicyLocal && subject.hasUsable && !subject.hasInternal,
      external: port.isExternalPolicyLocal && subject.hasUsable && !subject.hasExternal,
    },
    ...(flows === undefined ? {} : { udpFlows: flows }),
  };
}

function subjectOf(port: ServicePort, chosen: ChosenEndpoints, context: IptablesContext): Subject {
  const { hasUsable } = chosen;
  const frontends = frontendsOf(port, context.family);
  const addressesOf = (kind: "external-ip" | "load-balancer"): readonly IpAddress[] =>
    frontends.filter((frontend) => frontend.kind === kind).map(({ address }) => address);
  const loadBalancerIps = addressesOf("load-balancer");
  const reached = (isLocal: boolean): boolean =>
    hasUsable && (isLocal ? chosen.local : chosen.cluster).length > 0;
  return {
    ...context,
    port,
    name: servicePortName(port),
    protocol: ruleProtocol(port.protocol),
    chains: servicePortChains(port),
    cluster: listEndpoints(port, chosen.cluster),
    local: listEndpoints(port, chosen.local),
    hasUsable,
    hasInternal: reached(port.isInternalPolicyLocal),
    hasExternal: reached(port.isExternalPolicyLocal),
    frontends,
    externalIps: addressesOf("external-ip"),
    loadBalancerIps,
    usesFirewall: hasUsable && loadBalancerIps.length > 0 && port.sourceRanges.length > 0,
  };
}

function sharedRules(subject: Subject): readonly SharedRule[] {
  return [
    ...clusterIpRules(subject),
    ...externalIpRules(subject),
    ...loadBalancerRules(subject),
    ...nodePortRules(subject),
    ...healthCheckRules(subject),
  ];
}

function clusterIpRules(subject: Subject): readonly SharedRule[] {
  const { port, name, hasInternal } = subject;
  if (!hasInternal) return [refuse(subject, "filter KUBE-SERVICES", port.clusterIp)];
  const matches = toAddress(subject, port.clusterIp, `${name} cluster IP`);
  const leading = rule(jumpTo(internalChain(subject)), ...matches);
  return [shared("nat KUBE-SERVICES", leading, claimOf(subject, port.clusterIp))];
}

function externalIpRules(subject: Subject): readonly SharedRule[] {
  return subject.externalIps.flatMap((address) =>
    fromOutside(subject, address, { what: "external IP", chain: subject.chains.external }),
  );
}

/**
 * With source ranges the address leads to the firewall chain, which lets some clients through; who comes out of it
 * unchanged is dropped in filter.
 */
function loadBalancerRules(subject: Subject): readonly SharedRule[] {
  const { name, chains, usesFirewall } = subject;
  const chain = usesFirewall ? chains.firewall : chains.external;
  return subject.loadBalancerIps.flatMap((address) => {
    const leading = fromOutside(subject, address, { what: "loadbalancer IP", chain });
    if (!usesFirewall) return leading;
    const text = `${name} traffic not accepted by ${chains.firewall}`;
    const closing = rule(drop, ...toAddress(subject, address, text));
    const claim = claimOf(subject, address);
    return [...leading, shared("filter KUBE-PROXY-FIREWALL", closing, claim)];
  });
}

interface Entry {
  readonly what: string;
  readonly chain: string;
}

function fromOutside(
  subject: Subject,
  address: IpAddress,
  { what, chain }: Entry,
): readonly SharedRule[] {
  const matches = toAddress(subject, address, `${subject.name} ${what}`);
  const leading = rule(jumpTo(chain), ...matches);
  return [
    ...(subject.hasUsable ? [shared("nat KUBE-SERVICES", leading, claimOf(subject, address))] : []),
    ...(subject.hasExternal ? [] : [refuse(subject, "filter KUBE-EXTERNAL-SERVICES", address)]),
  ];
}

function nodePortRules(subject: Subject): readonly SharedRule[] {
  const { port, name, protocol, chains, options, own } = subject;
  if (port.nodePort === 0) return none;
  const toPort = [
    { kind: "protocol", protocol } as const,
    comment(name),
    { kind: "port", protocol, destination: port.nodePort } as const,
  ];
  const toChain = jumpTo(chains.external);
  const counted = rule(toChain, destination(loopbackNetwork.IPv4), ...toPort, countedLocalhost);
  const claim = nodePortClaim(subject.port, subject.frontends);
  return [
    ...(subject.hasUsable && own.servesLoopback && options.hasCounters
      ? [shared("nat KUBE-NODEPORTS", counted, claim)]
      : []),
    ...(subject.hasUsable ? [shared("nat KUBE-NODEPORTS", rule(toChain, ...toPort), claim)] : []),
    ...(subject.hasExternal ? [] : [refuseNodePort(subject)]),
  ];
}

function refuseNodePort(subject: Subject): SharedRule {
  const { port, protocol } = subject;
  const { target, text } = refusal(subject);
  const refused = rule(target, { kind: "protocol", protocol }, comment(text), destinationIsLocal, {
    kind: "port",
    protocol,
    destination: port.nodePort,
  });
  return shared(
    "filter KUBE-EXTERNAL-SERVICES",
    refused,
    nodePortClaim(subject.port, subject.frontends),
  );
}

function healthCheckRules({ port, name }: Subject): readonly SharedRule[] {
  if (port.healthCheckNodePort === 0) return none;
  const admitted = rule(
    accept,
    { kind: "protocol", protocol: "tcp" },
    comment(`${name} health check node port`),
    { kind: "port", protocol: "tcp", destination: port.healthCheckNodePort },
  );
  return [shared("filter KUBE-NODEPORTS", admitted)];
}

function ownChains(subject: Subject): readonly Chain[] {
  const { port, chains, cluster, local } = subject;
  const used = new Map([...cluster, ...local].map((endpoint) => [endpoint.chain, endpoint]));
  const rulesOf = endpointRules(subject);
  const leading = (name: string, endpoints: readonly ListedEndpoint[]): Chain | undefined =>
    endpoints.length === 0
      ? undefined
      : natChain(name, [
          ...masqueradeInternal(subject, name),
          ...rulesOf.choice(endpoints, port.affinitySeconds),
        ]);
  const own = [
    leading(chains.cluster, cluster),
    leading(chains.local, local),
    isExternallyAccessible(port) ? natChain(chains.external, externalRules(subject)) : undefined,
    subject.usesFirewall ? natChain(chains.firewall, firewallRules(subject)) : undefined,
    ...[...used.values()].map((endpoint) => natChain(endpoint.chain, rulesOf.endpoint(endpoint))),
  ];
  return own.filter((chain) => chain !== undefined);
}

function natChain(name: string, rules: readonly Rule[]): Chain {
  return { table: "nat", name, rules };
}

/** Traffic to the cluster IP that does not come from a pod of this node must come back by way of it. */
function masqueradeInternal(subject: Subject, chain: string): readonly Rule[] {
  const { port, name, family, options } = subject;
  if (chain !== internalChain(subject)) return none;
  const toIp = toAddress(subject, port.clusterIp, `${name} cluster IP`);
  if (options.shared.isMasqueradeAll) return [rule(toMarkMasq, ...toIp)];
  const { localDetector } = family;
  if (localDetector === undefined) return none;
  return [rule(toMarkMasq, ...inPrintedOrder(detected(localDetector, true), toIp))];
}

/**
 * Traffic from outside: with policy Cluster masqueraded; with policy Local the client's address is kept, and whoever
 * is on this node is served as by the cluster IP.
 */
function externalRules(subject: Subject): readonly Rule[] {
  const { port, name, family, chains, hasExternal, cluster } = subject;
  const destinations = `${name} external destinations`;
  const onward = hasExternal
    ? [rule(jumpTo(port.isExternalPolicyLocal ? chains.local : chains.cluster))]
    : none;
  if (!port.isExternalPolicyLocal) {
    return [rule(toMarkMasq, comment(`masquerade traffic for ${destinations}`)), ...onward];
  }
  if (cluster.length === 0) return onward;
  const { localDetector } = family;
  const fromPods = comment(`pod traffic for ${destinations}`);
  return [
    ...(localDetector === undefined
      ? []
      : [rule(jumpTo(chains.cluster), detected(localDetector, false), fromPods)]),
    rule(toMarkMasq, comment(`masquerade LOCAL traffic for ${destinations}`), sourceIsLocal),
    rule(jumpTo(chains.cluster), comment(`route LOCAL traffic for ${destinations}`), sourceIsLocal),
    ...onward,
  ];
}

/** A load balancer that this node stands behind sends with its own address where the node is admitted. */
function firewallRules(subject: Subject): readonly Rule[] {
  const { port, name, family, chains, loadBalancerIps } = subject;
  const reason = comment(`${name} loadbalancer IP`);
  const toExternal = jumpTo(chains.external);
  const admitsNode = port.sourceRanges.some((range: Cidr) => cidrContains(range, family.nodeIp));
  const sources = [
    ...port.sourceRanges.map(cidrText),
    ...(admitsNode ? loadBalancerIps.map(hostNetwork) : []),
  ];
  const rest = `other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`;
  return [
    ...sources.map((cidr) => rule(toExternal, source(cidr), reason)),
    rule({ kind: "none" }, comment(rest)),
  ];
}

function internalChain({ port, chains }: Subject): string {
  return port.isInternalPolicyLocal ? chains.local : chains.cluster;
}

function toAddress({ port, protocol }: Subject, address: IpAddress, text: string): Match[] {
  return [
    destination(hostNetwork(address)),
    { kind: "protocol", protocol },
    comment(text),
    { kind: "port", protocol, destination: port.port },
  ];
}

function detected(detector: LocalDetector, isNegated: boolean): Match {
  if (detector.kind === "source") return source(detector.cidr, isNegated);
  return { kind: "in-interface", name: detector.name, isNegated };
}

/** iptables-save prints the source before the destination, and the interface behind it. */
function inPrintedOrder(detector: Match, [toIp, ...rest]: readonly Match[]): readonly Match[] {
  if (toIp === undefined) return [detector];
  return detector.kind === "source" ? [detector, toIp, ...rest] : [toIp, detector, ...rest];
}

/** Nobody serves anywhere: say so at once. Others do, but not here: silence, so that a load balancer looks elsewhere. */
function refusal({ name, hasUsable }: Subject): { readonly target: Target; readonly text: string } {
  return hasUsable
    ? { target: drop, text: `${name} has no local endpoints` }
    : { target: { kind: "reject" }, text: `${name} has no endpoints` };
}

function refuse(subject: Subject, chain: SharedChainKey, address: IpAddress): SharedRule {
  const { target, text } = refusal(subject);
  const refused = rule(target, ...toAddress(subject, address, text));
  return shared(chain, refused, claimOf(subject, address));
}

function shared(chain: SharedChainKey, one: Rule, claim?: string): SharedRule {
  return claim === undefined ? { chain, rule: one } : { chain, rule: one, claim };
}

function claimOf({ port }: Subject, address: IpAddress): string {
  return claimKey(port, { address, port: port.port });
}

/** The chains in nat that belong to a single service port. Pure. */
import { type Cidr, cidrContains, cidrText } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { isExternallyAccessible } from "../../model/service-ports.ts";
import type { Chain, Match, Rule } from "../../state/rule.ts";
import {
  chain,
  comment,
  fromPods,
  hostNetwork,
  jumpTo,
  rule,
  source,
  sourceIsLocal,
  toMarkMasq,
} from "../rule-words.ts";
import { choiceRules, endpointRules } from "./endpoint-rules.ts";
import { internalChain, type ListedEndpoint, type RuleSubject, toAddress } from "./rule-subject.ts";

export function ownChains(subject: RuleSubject): readonly Chain[] {
  const { port, chains, cluster, local } = subject;
  const used = new Map([...cluster, ...local].map((endpoint) => [endpoint.chain, endpoint]));
  const leading = (name: string, endpoints: readonly ListedEndpoint[]): Chain | undefined =>
    endpoints.length === 0
      ? undefined
      : chain("nat", name, [
          ...masqueradeInternal(subject, name),
          ...choiceRules(subject, endpoints),
        ]);
  const own = [
    leading(chains.cluster, cluster),
    leading(chains.local, local),
    isExternallyAccessible(port)
      ? chain("nat", chains.external, externalRules(subject))
      : undefined,
    subject.usesFirewall ? chain("nat", chains.firewall, firewallRules(subject)) : undefined,
    ...[...used.values()].map((endpoint) =>
      chain("nat", endpoint.chain, endpointRules(subject, endpoint)),
    ),
  ];
  return own.filter((one) => one !== undefined);
}

/**
 * Masquerades cluster IP traffic that does not come from this node's pods, so that replies return through this node.
 */
function masqueradeInternal(subject: RuleSubject, chainName: string): readonly Rule[] {
  const { port, name, family, options } = subject;
  if (chainName !== internalChain(subject)) return none;
  const toIp = toAddress(subject, port.clusterIp, `${name} cluster IP`);
  if (options.shared.masqueradeAll) return [rule(toMarkMasq, ...toIp)];
  const { localDetector } = family;
  if (localDetector === undefined) return none;
  return [rule(toMarkMasq, ...inPrintedOrder(fromPods(localDetector, true), toIp))];
}

/**
 * Rules for traffic to node ports, external and load-balancer IPs. With policy Cluster, it is masqueraded. With policy
 * Local, the client's address is kept, but traffic from this node and its pods may still use all endpoints, as at the
 * cluster IP.
 */
function externalRules(subject: RuleSubject): readonly Rule[] {
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
  const podsText = comment(`pod traffic for ${destinations}`);
  return [
    ...(localDetector === undefined
      ? []
      : [rule(jumpTo(chains.cluster), fromPods(localDetector, false), podsText)]),
    rule(toMarkMasq, comment(`masquerade LOCAL traffic for ${destinations}`), sourceIsLocal),
    rule(jumpTo(chains.cluster), comment(`route LOCAL traffic for ${destinations}`), sourceIsLocal),
    ...onward,
  ];
}

/**
 * If the node's address is in a source range, the load-balancer IPs are also admitted as sources. If a load-balancer IP
 * is local, it is the source of packets from the node to that IP.
 */
function firewallRules(subject: RuleSubject): readonly Rule[] {
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

/** Follows `iptables-save` order, with the source before the destination and the interface after it. */
function inPrintedOrder(detector: Match, [toIp, ...rest]: readonly Match[]): readonly Match[] {
  if (toIp === undefined) return [detector];
  return detector.kind === "source" ? [detector, toIp, ...rest] : [toIp, detector, ...rest];
}

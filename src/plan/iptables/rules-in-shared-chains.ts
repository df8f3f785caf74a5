/** One service port's rules in shared chains. Pure. */
import type { IpAddress } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import type { Rule, Target } from "../../state/rule.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import { claimKey, nodePortClaim } from "../claims/claimed-keys.ts";
import {
  accept,
  comment,
  destination,
  destinationIsLocal,
  drop,
  jumpTo,
  loopbackNetwork,
  ofProtocol,
  reject,
  rule,
  toPort,
} from "../rule-words.ts";
import { countedLocalhost } from "./fixed-chains.ts";
import { internalChain, type RuleSubject, toAddress } from "./rule-subject.ts";
import type { SharedChainKey, SharedRule } from "./shared-chains.ts";

export function rulesInSharedChains(subject: RuleSubject): readonly SharedRule[] {
  return [
    ...clusterIpRules(subject),
    ...externalIpRules(subject),
    ...loadBalancerRules(subject),
    ...nodePortRules(subject),
    ...healthCheckRules(subject),
  ];
}

function clusterIpRules(subject: RuleSubject): readonly SharedRule[] {
  const { port, name, hasInternal } = subject;
  if (!hasInternal) return [refuse(subject, "filter KUBE-SERVICES", port.clusterIp)];
  const matches = toAddress(subject, port.clusterIp, `${name} cluster IP`);
  const leading = rule(jumpTo(internalChain(subject)), ...matches);
  return [shared("nat KUBE-SERVICES", leading, claimOf(subject, port.clusterIp))];
}

function externalIpRules(subject: RuleSubject): readonly SharedRule[] {
  return subject.externalIps.flatMap((address) =>
    fromOutside(subject, address, { what: "external IP", chain: subject.chains.external }),
  );
}

/**
 * If there are source ranges, packets traverse the firewall chain, which admits clients in these ranges. Packets from
 * other clients are dropped in the filter table.
 */
function loadBalancerRules(subject: RuleSubject): readonly SharedRule[] {
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
  subject: RuleSubject,
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

function nodePortRules(subject: RuleSubject): readonly SharedRule[] {
  const { port, name, protocol, chains, options, own } = subject;
  if (port.nodePort === 0) return none;
  const matches = [ofProtocol(protocol), comment(name), toPort(protocol, port.nodePort)];
  const toChain = jumpTo(chains.external);
  const counted = rule(toChain, destination(loopbackNetwork.IPv4), ...matches, countedLocalhost);
  const claim = nodePortClaim(port, subject.frontends);
  return [
    ...(subject.hasUsable && own.servesLoopback && options.hasCounters
      ? [shared("nat KUBE-NODEPORTS", counted, claim)]
      : []),
    ...(subject.hasUsable ? [shared("nat KUBE-NODEPORTS", rule(toChain, ...matches), claim)] : []),
    ...(subject.hasExternal ? [] : [refuseNodePort(subject, claim)]),
  ];
}

function refuseNodePort(subject: RuleSubject, claim: ServerKey | undefined): SharedRule {
  const { port, protocol } = subject;
  const { target, text } = refusal(subject);
  const refused = rule(
    target,
    ofProtocol(protocol),
    comment(text),
    destinationIsLocal,
    toPort(protocol, port.nodePort),
  );
  return shared("filter KUBE-EXTERNAL-SERVICES", refused, claim);
}

function healthCheckRules({ port, name }: RuleSubject): readonly SharedRule[] {
  if (port.healthCheckNodePort === 0) return none;
  const admitted = rule(
    accept,
    ofProtocol("tcp"),
    comment(`${name} health check node port`),
    toPort("tcp", port.healthCheckNodePort),
  );
  return [shared("filter KUBE-NODEPORTS", admitted)];
}

/**
 * Packets are rejected if the service port has no endpoints at all. If it has endpoints only on other nodes, packets
 * are dropped silently, so that a load balancer tries another node.
 */
function refusal({ name, hasUsable }: RuleSubject): {
  readonly target: Target;
  readonly text: string;
} {
  return hasUsable
    ? { target: drop, text: `${name} has no local endpoints` }
    : { target: reject, text: `${name} has no endpoints` };
}

function refuse(subject: RuleSubject, chain: SharedChainKey, address: IpAddress): SharedRule {
  const { target, text } = refusal(subject);
  const refused = rule(target, ...toAddress(subject, address, text));
  return shared(chain, refused, claimOf(subject, address));
}

function shared(chain: SharedChainKey, one: Rule, claim?: ServerKey): SharedRule {
  return claim === undefined ? { chain, rule: one } : { chain, rule: one, claim };
}

function claimOf({ port }: RuleSubject, address: IpAddress): ServerKey {
  return claimKey(port, { address, port: port.port });
}

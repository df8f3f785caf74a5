/**
 * A family's rules in IPVS mode. Their number depends on which sets contain entries, not on the number of Services. The
 * exception is KUBE-IPVS-OUT-FILTER, which has one rule for each frontend that this node must not use. Chains, rule
 * order and comments are kube-proxy's, because kube-proxy and other software find them by text.
 */
import type { IpFamily } from "../base/ip.ts";
import { protocolNumbers } from "../base/protocol.ts";
import type { Chain, Jump, Match, Rule, RuleSet } from "../state/rule.ts";
import {
  acceptMarked,
  masqueradeMarked,
  rangeChains,
  rangeJumps,
  returnMarked,
} from "./range-rules.ts";
import { described, matchSet, type RulesInput, when } from "./rule-parts.ts";
import {
  accept,
  chain,
  comment,
  destinationIsLocal,
  drop,
  forwarding,
  forwardRules,
  fromPods,
  hostNetwork,
  jump,
  jumpTo,
  loopbackNetwork,
  markRule,
  masqueradeRules,
  ofProtocol,
  portals,
  type RuleProtocol,
  reject,
  rule,
  source,
  sourceIsLocal,
  stop,
  toMarkMasq,
} from "./rule-words.ts";
import type { SetRole } from "./sets.ts";
import { tunnelChains, tunnelJumps } from "./tunnel-rules.ts";

/** Chains that only earlier versions of kube-proxy created. The filter table's KUBE-FIREWALL is kubelet's. */
const retiredChains: readonly Chain[] = [chain("nat", "KUBE-FIREWALL", [])];

/** The rules for an empty cluster. They name all chains and jumps of IPVS mode, which the clean-up removes. */
export function planEmptyRules(
  family: IpFamily,
  options: Pick<
    RulesInput,
    "masqueradeAll" | "masqueradeMark" | "portRangeMarks" | "isTunnelingEnabled"
  >,
): RuleSet {
  const { masqueradeAll, masqueradeMark, portRangeMarks, isTunnelingEnabled } = options;
  const { chains, jumps: ours } = planRules({
    ...{ masqueradeAll, masqueradeMark, portRangeMarks, isTunnelingEnabled },
    family,
    filledSets: new Set(),
    deniedToNode: [],
    localDetector: undefined,
  });
  return { chains: [...chains, ...retiredChains], jumps: ours };
}

/** Plans all of a family's chains and jumps. Pure. */
export function planRules(input: RulesInput): RuleSet {
  const { masqueradeMark } = input;
  return {
    chains: [
      chain("nat", "KUBE-SERVICES", servicesRules(input)),
      chain("nat", "KUBE-POSTROUTING", postroutingRules(input)),
      chain("nat", "KUBE-NODE-PORT", nodePortRules(input)),
      chain("nat", "KUBE-LOAD-BALANCER", loadBalancerRules(input)),
      chain("nat", "KUBE-MARK-MASQ", [markRule(masqueradeMark)]),
      chain("filter", "KUBE-FORWARD", forwardRules(masqueradeMark)),
      chain("filter", "KUBE-NODE-PORT", healthCheckRules(input)),
      chain("filter", "KUBE-PROXY-FIREWALL", firewallRules(input)),
      chain("filter", "KUBE-SOURCE-RANGES-FIREWALL", sourceRangeRules(input)),
      chain("filter", "KUBE-IPVS-FILTER", ipvsFilterRules(input)),
      chain("filter", "KUBE-IPVS-OUT-FILTER", outFilterRules(input)),
      ...rangeChains(input),
      ...tunnelChains(input),
    ],
    jumps: [
      ...jumps,
      ...(input.portRangeMarks === undefined ? [] : rangeJumps),
      ...(input.isTunnelingEnabled === true ? tunnelJumps : []),
    ],
  };
}

const firewall = comment("kube-proxy firewall rules");
const accessFilter = comment("kubernetes ipvs access filter");

/** In insertion order. Each jump is inserted at position 1, so KUBE-IPVS-FILTER has the first rule in INPUT. */
const jumps: readonly Jump[] = [
  jump("nat", "OUTPUT", "KUBE-SERVICES", portals),
  jump("nat", "PREROUTING", "KUBE-SERVICES", portals),
  jump("nat", "POSTROUTING", "KUBE-POSTROUTING", comment("kubernetes postrouting rules")),
  jump("filter", "FORWARD", "KUBE-FORWARD", forwarding),
  jump("filter", "INPUT", "KUBE-NODE-PORT", comment("kubernetes health check rules")),
  jump("filter", "INPUT", "KUBE-PROXY-FIREWALL", firewall),
  jump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", firewall),
  jump("filter", "INPUT", "KUBE-IPVS-FILTER", accessFilter),
  jump("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", accessFilter),
];

function servicesRules(input: RulesInput): readonly Rule[] {
  const toLoadBalancer = rule(
    jumpTo("KUBE-LOAD-BALANCER"),
    comment("Kubernetes service lb portal"),
    matchSet(input, "loadBalancer"),
  );
  return [
    rule(stop, source(loopbackNetwork[input.family])),
    ...acceptMarked(input),
    ...when(input, "loadBalancer", toLoadBalancer),
    ...when(input, "clusterIp", clusterIpMasquerade(input)),
    ...when(
      input,
      "externalIp",
      rule(toMarkMasq, ...described(input, "externalIp")),
      ...acceptExternal(input, "externalIp"),
    ),
    ...when(
      input,
      "externalIpLocal",
      ...masqueradeNode(input, "externalIpLocal"),
      ...acceptExternal(input, "externalIpLocal"),
    ),
    rule(jumpTo("KUBE-NODE-PORT"), destinationIsLocal),
    ...when(input, "clusterIp", rule(accept, matchSet(input, "clusterIp"))),
    ...when(input, "loadBalancer", rule(accept, matchSet(input, "loadBalancer"))),
  ];
}

/**
 * Selects the cluster IP traffic to masquerade: all of it, or traffic that does not come from this node's pods. If pods
 * cannot be distinguished, selects packets whose source is a cluster IP. A local process that connects to a cluster IP
 * has that IP as its source, because kube-ipvs0 makes the address local.
 */
function clusterIpMasquerade(input: RulesInput): Rule {
  const { masqueradeAll, localDetector } = input;
  const toClusterIp = described(input, "clusterIp");
  if (masqueradeAll) return rule(toMarkMasq, ...toClusterIp);
  return localDetector === undefined
    ? rule(toMarkMasq, ...described(input, "clusterIp", "src,dst"))
    : rule(toMarkMasq, fromPods(localDetector, true), ...toClusterIp);
}

/** Lets packets to external IPs skip the node-port chain if they come from outside or if the address is local. */
function acceptExternal(input: RulesInput, role: SetRole): readonly Rule[] {
  const isExternal = described(input, role);
  const fromOutside: readonly Match[] = [
    { kind: "physical-in", isNegated: true },
    { kind: "address-type", end: "src", type: "LOCAL", isNegated: true },
  ];
  return [
    rule(accept, ...isExternal, ...fromOutside),
    rule(accept, ...isExternal, destinationIsLocal),
  ];
}

/**
 * Masquerades the node's own connections, whose source is the virtual IP. Otherwise, replies from other nodes to that
 * address would not return to this node.
 */
function masqueradeNode(input: RulesInput, role: SetRole): readonly Rule[] {
  if (input.edges?.masqueradeNodeToLocal !== true) return [];
  return [rule(toMarkMasq, ...described(input, role), sourceIsLocal)];
}

function postroutingRules(input: RulesInput): readonly Rule[] {
  const isToItself = described(input, "loopBack", "dst,dst,src");
  return [
    ...when(input, "loopBack", rule({ kind: "masquerade", isRandomFully: false }, ...isToItself)),
    ...masqueradeMarked(input),
    ...masqueradeRules(input.masqueradeMark),
  ];
}

interface NodePortRow {
  readonly protocol: RuleProtocol;
  readonly all: SetRole;
  readonly local: SetRole;
  readonly directions: string;
}

const nodePortRows: readonly NodePortRow[] = [
  { protocol: "tcp", all: "nodePortTcp", local: "nodePortLocalTcp", directions: "dst" },
  { protocol: "udp", all: "nodePortUdp", local: "nodePortLocalUdp", directions: "dst" },
  { protocol: "sctp", all: "nodePortSctp", local: "nodePortLocalSctp", directions: "dst,dst" },
];

function nodePortRules(input: RulesInput): readonly Rule[] {
  return nodePortRows.flatMap(({ protocol, all, local, directions }) => {
    const isIn = (role: SetRole): readonly Match[] => [
      ofProtocol(protocol),
      ...described(input, role, directions),
    ];
    return [
      ...when(input, local, rule(stop, ...isIn(local))),
      ...when(input, all, rule(toMarkMasq, ...isIn(all))),
    ];
  });
}

function loadBalancerRules(input: RulesInput): readonly Rule[] {
  return [
    ...when(
      input,
      "loadBalancerLocal",
      ...masqueradeNode(input, "loadBalancerLocal"),
      rule(stop, ...described(input, "loadBalancerLocal")),
    ),
    rule(toMarkMasq),
  ];
}

function healthCheckRules(input: RulesInput): readonly Rule[] {
  return [rule(accept, ...described(input, "healthCheckNodePort", "dst"))];
}

function firewallRules(input: RulesInput): readonly Rule[] {
  const hasRanges = described(input, "loadBalancerFirewall");
  const toSourceRanges = rule(jumpTo("KUBE-SOURCE-RANGES-FIREWALL"), ...hasRanges);
  return when(input, "loadBalancerFirewall", toSourceRanges);
}

function sourceRangeRules(input: RulesInput): readonly Rule[] {
  const admit = (role: SetRole): readonly Rule[] =>
    when(input, role, rule(stop, ...described(input, role, "dst,dst,src")));
  return [...admit("loadBalancerSourceCidr"), ...admit("loadBalancerSourceIp"), rule(drop)];
}

/** Rejects new connections to a bound address unless one of the service sets contains the port. */
function ipvsFilterRules(input: RulesInput): readonly Rule[] {
  const known = (role: SetRole): Rule => rule(stop, matchSet(input, role));
  const isBound = matchSet(input, "ipvsIps", "dst");
  const answerPing = input.edges?.answerPing === true;
  return [
    known("loadBalancer"),
    known("clusterIp"),
    known("externalIp"),
    known("externalIpLocal"),
    rule(stop, matchSet(input, "healthCheckNodePort", "dst")),
    ...returnMarked(input),
    ...(answerPing ? [rule(stop, { kind: "echo-request" }, isBound)] : []),
    rule(reject, { kind: "conntrack-state", states: ["NEW"] }, isBound),
  ];
}

/**
 * Drops the node's own packets to frontends that it must not use. The chain OUTPUT sees packets after IPVS has
 * translated them, so only the `ipvs` match shows the virtual address. Packets of other hosts that IPVS handles also
 * traverse OUTPUT, so a source match limits each rule to this node's own packets. Their source is the virtual address,
 * unless a process binds a different address of the node.
 */
function outFilterRules({ deniedToNode, edges }: RulesInput): readonly Rule[] {
  const areStrict = edges?.strictSourceRanges === true;
  return deniedToNode.map(({ address, protocol, port }) =>
    rule(drop, areStrict ? sourceIsLocal : source(hostNetwork(address)), {
      kind: "ipvs",
      protocolNumber: protocolNumbers[protocol],
      address,
      port,
    }),
  );
}

/**
 * The fixed iptables rules of a family. Their number depends on which sets hold anything, never on how
 * many Services there are; only KUBE-IPVS-OUT-FILTER has a rule per load balancer that shuts this node
 * out. Chains, order and comments are kube-proxy's: it and other software look for them by text.
 */
import type { IpFamily } from "../base/ip.ts";
import { protocolNumbers } from "../base/protocol.ts";
import type { Chain, Jump, Match, Rule, RuleSet, TableName, Target } from "../state/rule.ts";
import type { LocalDetector } from "./options.ts";
import { comment, described, jumpFrom, matchSet, type RulesInput, when } from "./rule-parts.ts";
import type { SetRole } from "./sets.ts";

/** Chains that kube-proxy made in mode ipvs once and makes no more: KUBE-FIREWALL of filter is kubelet's, this one is not. */
const retiredChains: readonly Chain[] = [{ table: "nat", name: "KUBE-FIREWALL", rules: [] }];

/** Rules of an empty cluster, to be removed: they name all chains and jumps of mode ipvs. */
export function planEmptyRules(
  family: IpFamily,
  { isMasqueradeAll, masqueradeMark }: Pick<RulesInput, "isMasqueradeAll" | "masqueradeMark">,
): RuleSet {
  const empty = { filledSets: new Set<never>(), deniedToNode: [], localDetector: undefined };
  const { chains, jumps: ours } = planRules({
    family,
    ...empty,
    isMasqueradeAll,
    masqueradeMark,
  });
  return { chains: [...chains, ...retiredChains], jumps: ours };
}

/** Plans all chains and jumps of a family. Pure. */
export function planRules(input: RulesInput): RuleSet {
  const chain = (table: TableName, name: string, rules: readonly Rule[]): Chain => ({
    table,
    name,
    rules,
  });
  return {
    chains: [
      chain("nat", "KUBE-SERVICES", servicesRules(input)),
      chain("nat", "KUBE-POSTROUTING", postroutingRules(input)),
      chain("nat", "KUBE-NODE-PORT", nodePortRules(input)),
      chain("nat", "KUBE-LOAD-BALANCER", loadBalancerRules(input)),
      chain("nat", "KUBE-MARK-MASQ", [markRule(input)]),
      chain("filter", "KUBE-FORWARD", forwardRules(input)),
      chain("filter", "KUBE-NODE-PORT", healthCheckRules(input)),
      chain("filter", "KUBE-PROXY-FIREWALL", firewallRules(input)),
      chain("filter", "KUBE-SOURCE-RANGES-FIREWALL", sourceRangeRules(input)),
      chain("filter", "KUBE-IPVS-FILTER", ipvsFilterRules(input)),
      chain("filter", "KUBE-IPVS-OUT-FILTER", outFilterRules(input)),
    ],
    jumps,
  };
}

const comments = {
  portals: "kubernetes service portals",
  postrouting: "kubernetes postrouting rules",
  forwarding: "kubernetes forwarding rules",
  healthChecks: "kubernetes health check rules",
  firewall: "kube-proxy firewall rules",
  accessFilter: "kubernetes ipvs access filter",
  conntrack: "kubernetes forwarding conntrack rule",
  masquerade: "kubernetes service traffic requiring SNAT",
  loadBalancerPortal: "Kubernetes service lb portal",
} as const;

/** In insertion order; each goes to the first place, so in INPUT KUBE-IPVS-FILTER ends up on top. */
const jumps: readonly Jump[] = [
  jumpFrom("nat", "OUTPUT", "KUBE-SERVICES", comments.portals),
  jumpFrom("nat", "PREROUTING", "KUBE-SERVICES", comments.portals),
  jumpFrom("nat", "POSTROUTING", "KUBE-POSTROUTING", comments.postrouting),
  jumpFrom("filter", "FORWARD", "KUBE-FORWARD", comments.forwarding),
  jumpFrom("filter", "INPUT", "KUBE-NODE-PORT", comments.healthChecks),
  jumpFrom("filter", "INPUT", "KUBE-PROXY-FIREWALL", comments.firewall),
  jumpFrom("filter", "FORWARD", "KUBE-PROXY-FIREWALL", comments.firewall),
  jumpFrom("filter", "INPUT", "KUBE-IPVS-FILTER", comments.accessFilter),
  jumpFrom("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", comments.accessFilter),
];

const accept: Target = { kind: "accept" };
const stop: Target = { kind: "return" };
const toMarkMasq: Target = { kind: "jump", chain: "KUBE-MARK-MASQ" };
const destinationIsLocal: Match = {
  kind: "address-type",
  end: "dst",
  type: "LOCAL",
  isNegated: false,
};

const sourceIsLocal: Match = { ...destinationIsLocal, end: "src" };

function servicesRules(input: RulesInput): readonly Rule[] {
  const loopback = input.family === "IPv4" ? "127.0.0.0/8" : "::1/128";
  const loadBalancerIp = [
    comment(comments.loadBalancerPortal),
    matchSet(input, "loadBalancer", "dst,dst"),
  ];
  return [
    { matches: [{ kind: "source", cidr: loopback, isNegated: false }], target: stop },
    ...when(input, "loadBalancer", [
      { matches: loadBalancerIp, target: { kind: "jump", chain: "KUBE-LOAD-BALANCER" } },
    ]),
    ...when(input, "clusterIp", [clusterIpMasquerade(input)]),
    ...when(input, "externalIp", [
      { matches: described(input, "externalIp", "dst,dst"), target: toMarkMasq },
      ...acceptExternal(input, "externalIp"),
    ]),
    ...when(input, "externalIpLocal", [
      ...masqueradeNode(input, "externalIpLocal"),
      ...acceptExternal(input, "externalIpLocal"),
    ]),
    { matches: [destinationIsLocal], target: { kind: "jump", chain: "KUBE-NODE-PORT" } },
    ...when(input, "clusterIp", [
      { matches: [matchSet(input, "clusterIp", "dst,dst")], target: accept },
    ]),
    ...when(input, "loadBalancer", [
      { matches: [matchSet(input, "loadBalancer", "dst,dst")], target: accept },
    ]),
  ];
}

/**
 * Which traffic to cluster IPs is masqueraded: all of it, or what does not come from pods of this node,
 * or, where pods cannot be distinguished, what carries a cluster IP as its source (a process of the node
 * that connects to one, since the address is local on kube-ipvs0).
 */
function clusterIpMasquerade(input: RulesInput): Rule {
  if (input.isMasqueradeAll) {
    return { matches: described(input, "clusterIp", "dst,dst"), target: toMarkMasq };
  }
  if (input.localDetector === undefined) {
    return { matches: described(input, "clusterIp", "src,dst"), target: toMarkMasq };
  }
  const notLocal: Match = { ...detectorMatch(input.localDetector) };
  return { matches: [notLocal, ...described(input, "clusterIp", "dst,dst")], target: toMarkMasq };
}

function detectorMatch(detector: LocalDetector): Match {
  if (detector.kind === "source") return { kind: "source", cidr: detector.cidr, isNegated: true };
  return { kind: "in-interface", name: detector.name, isNegated: true };
}

/** External addresses that arrive from outside, or that are this node's own, skip the node-port chain. */
function acceptExternal(input: RulesInput, role: SetRole): readonly Rule[] {
  const isExternal = described(input, role, "dst,dst");
  const fromOutside: readonly Match[] = [
    { kind: "physical-in", isNegated: true },
    { kind: "address-type", end: "src", type: "LOCAL", isNegated: true },
  ];
  return [
    { matches: [...isExternal, ...fromOutside], target: accept },
    { matches: [...isExternal, destinationIsLocal], target: accept },
  ];
}

/** The node's own connections have the virtual IP as their source, by which no other node finds the way back. */
function masqueradeNode(input: RulesInput, role: SetRole): readonly Rule[] {
  if (input.edges?.isNodeMasqueraded !== true) return [];
  return [{ matches: [...described(input, role, "dst,dst"), sourceIsLocal], target: toMarkMasq }];
}

function postroutingRules(input: RulesInput): readonly Rule[] {
  const mark = input.masqueradeMark;
  return [
    ...when(input, "loopBack", [
      {
        matches: described(input, "loopBack", "dst,dst,src"),
        target: { kind: "masquerade", isRandomFully: false },
      },
    ]),
    { matches: [{ kind: "mark", value: mark, mask: mark, isNegated: true }], target: stop },
    // The mark has done its work; without it a packet that passes again is not masqueraded twice.
    { matches: [], target: { kind: "xmark", value: mark, mask: 0 } },
    {
      matches: [comment(comments.masquerade)],
      target: { kind: "masquerade", isRandomFully: true },
    },
  ];
}

interface NodePortRow {
  readonly protocol: "tcp" | "udp" | "sctp";
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
    const ofProtocol = (role: SetRole): readonly Match[] => [
      { kind: "protocol", protocol },
      ...described(input, role, directions),
    ];
    return [
      ...when(input, local, [{ matches: ofProtocol(local), target: stop }]),
      ...when(input, all, [{ matches: ofProtocol(all), target: toMarkMasq }]),
    ];
  });
}

function loadBalancerRules(input: RulesInput): readonly Rule[] {
  const isLocal = described(input, "loadBalancerLocal", "dst,dst");
  return [
    ...when(input, "loadBalancerLocal", [
      ...masqueradeNode(input, "loadBalancerLocal"),
      { matches: isLocal, target: stop },
    ]),
    { matches: [], target: toMarkMasq },
  ];
}

function markRule({ masqueradeMark }: RulesInput): Rule {
  return { matches: [], target: { kind: "xmark", value: masqueradeMark, mask: masqueradeMark } };
}

function forwardRules({ masqueradeMark }: RulesInput): readonly Rule[] {
  const marked: Match = {
    kind: "mark",
    value: masqueradeMark,
    mask: masqueradeMark,
    isNegated: false,
  };
  const established: Match = { kind: "conntrack-state", states: ["RELATED", "ESTABLISHED"] };
  return [
    { matches: [comment(comments.forwarding), marked], target: accept },
    { matches: [comment(comments.conntrack), established], target: accept },
  ];
}

function healthCheckRules(input: RulesInput): readonly Rule[] {
  return [{ matches: described(input, "healthCheckNodePort", "dst"), target: accept }];
}

function firewallRules(input: RulesInput): readonly Rule[] {
  const hasRanges = described(input, "loadBalancerFirewall", "dst,dst");
  const target: Target = { kind: "jump", chain: "KUBE-SOURCE-RANGES-FIREWALL" };
  return when(input, "loadBalancerFirewall", [{ matches: hasRanges, target }]);
}

function sourceRangeRules(input: RulesInput): readonly Rule[] {
  const admit = (role: SetRole): readonly Rule[] =>
    when(input, role, [{ matches: described(input, role, "dst,dst,src"), target: stop }]);
  return [
    ...admit("loadBalancerSourceCidr"),
    ...admit("loadBalancerSourceIp"),
    { matches: [], target: { kind: "drop" } },
  ];
}

/** New connections to a bound address are refused unless one of the service sets knows the port. */
function ipvsFilterRules(input: RulesInput): readonly Rule[] {
  const known = (role: SetRole, directions: string): Rule => ({
    matches: [matchSet(input, role, directions)],
    target: stop,
  });
  return [
    known("loadBalancer", "dst,dst"),
    known("clusterIp", "dst,dst"),
    known("externalIp", "dst,dst"),
    known("externalIpLocal", "dst,dst"),
    known("healthCheckNodePort", "dst"),
    ...answeredPings(input),
    {
      matches: [{ kind: "conntrack-state", states: ["NEW"] }, matchSet(input, "ipvsIps", "dst")],
      target: { kind: "reject" },
    },
  ];
}

function answeredPings(input: RulesInput): readonly Rule[] {
  if (input.edges?.isPingAnswered !== true) return [];
  return [{ matches: [{ kind: "echo-request" }, matchSet(input, "ipvsIps", "dst")], target: stop }];
}

/**
 * filter OUTPUT sees translated packets, hence the `ipvs` match on the virtual address. It sees those of others too, once
 * IPVS has taken them: hence the source, which is the virtual address unless a process chooses another one of the node's.
 */
function outFilterRules({ deniedToNode, edges }: RulesInput): readonly Rule[] {
  return deniedToNode.map(({ address, protocol, port }) => {
    const cidr = `${address}/${address.includes(":") ? 128 : 32}`;
    const source: Match = { kind: "source", cidr, isNegated: false };
    return {
      matches: [
        edges?.areSourceRangesStrict === true ? sourceIsLocal : source,
        { kind: "ipvs", protocolNumber: protocolNumbers[protocol], address, port },
      ],
      target: { kind: "drop" },
    };
  });
}

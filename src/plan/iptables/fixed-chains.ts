/**
 * Chains, rules and jumps that do not depend on Services. Names, order and comments are kube-proxy's, because
 * kube-proxy and other software find them by text. Pure.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Chain, Jump, Match, Rule, RuleSet } from "../../state/rule.ts";
import {
  chain,
  comment,
  destination,
  destinationIsLocal,
  drop,
  forwarding,
  forwardRules,
  jump,
  jumpTo,
  loopbackNetwork,
  markRule,
  masqueradeRules,
  portals,
  rule,
  source,
} from "../rule-words.ts";
import type { IptablesFamilyOptions, IptablesOptions } from "./options.ts";

/** An empty chain in three tables. If it is missing from a table, other software flushed that table. */
const canaryChain = "KUBE-PROXY-CANARY";

/** Chain that kubelet and kube-proxy share. It must never be flushed or removed. */
const kubeletFirewall: Chain = { table: "filter", name: "KUBE-FIREWALL", rules: [] };

/** `own` matches the chains of service ports. Before Kubernetes 1.24, chain names contained XLB instead of EXT. */
export const ofServices: Required<RuleSet>["ofServices"] = {
  others: [kubeletFirewall],
  own: /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/,
};

/** Kernel counters (nfacct objects) that rules refer to. They must exist before the rules. */
export const counters = {
  invalidDropped: "ct_state_invalid_dropped_pkts",
  localhostAccepted: "localhost_nps_accepted_pkts",
} as const;

export const countedLocalhost: Match = { kind: "accounting", counter: counters.localhostAccepted };

/** Complete chains that contain no Service rules. */
export function fixedChains(options: IptablesOptions): readonly Chain[] {
  const { masqueradeMark } = options.shared;
  return [
    chain("nat", "KUBE-POSTROUTING", masqueradeRules(masqueradeMark)),
    chain("nat", "KUBE-MARK-MASQ", [markRule(masqueradeMark)]),
    chain("filter", "KUBE-FORWARD", [...invalidRules(options), ...forwardRules(masqueradeMark)]),
    ...(["mangle", "nat", "filter"] as const).map((table) => chain(table, canaryChain, [])),
  ];
}

/**
 * The last rules of KUBE-SERVICES in nat, after all Service rules. They send remaining packets to local addresses to
 * the node ports.
 */
export function nodePortEntries(
  family: IpFamily,
  { servesAllAddresses, nodePortAddresses, servesLoopback }: IptablesFamilyOptions,
): readonly Rule[] {
  const last = comment(
    "kubernetes service nodeports; NOTE: this must be the last rule in this chain",
  );
  const toNodePorts = jumpTo("KUBE-NODEPORTS");
  if (!servesAllAddresses) {
    return nodePortAddresses.map((cidr) => rule(toNodePorts, destination(cidr), last));
  }
  const notLoopback = servesLoopback ? [] : [destination(loopbackNetwork[family], true)];
  return [rule(toNodePorts, ...notLoopback, last, destinationIsLocal)];
}

const isNew: Match = { kind: "conntrack-state", states: ["NEW"] };

const externalPortals = comment("kubernetes externally-visible service portals");
const firewall = comment("kubernetes load balancer firewall");

/** In insertion order. Each jump is inserted at position 1, so a chain's last jump here is its first rule. */
const jumps: readonly Jump[] = [
  jump("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", isNew, externalPortals),
  jump("filter", "INPUT", "KUBE-NODEPORTS", comment("kubernetes health check service ports")),
  jump("filter", "INPUT", "KUBE-PROXY-FIREWALL", isNew, firewall),
  jump("filter", "INPUT", kubeletFirewall.name),
  jump("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", isNew, externalPortals),
  jump("filter", "FORWARD", "KUBE-SERVICES", isNew, portals),
  jump("filter", "FORWARD", "KUBE-FORWARD", forwarding),
  jump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", isNew, firewall),
  jump("filter", "OUTPUT", "KUBE-SERVICES", isNew, portals),
  jump("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", isNew, firewall),
  jump("filter", "OUTPUT", kubeletFirewall.name),
  jump("nat", "OUTPUT", "KUBE-SERVICES", portals),
  jump("nat", "PREROUTING", "KUBE-SERVICES", portals),
  jump("nat", "POSTROUTING", "KUBE-POSTROUTING", comment("kubernetes postrouting rules")),
];

/**
 * Node ports on loopback addresses require that packets to 127.0.0.0/8 are routed. This rule drops such packets if they
 * come from outside (CVE-2020-8558).
 */
const blockMartians: Jump = {
  table: kubeletFirewall.table,
  from: kubeletFirewall.name,
  rule: rule(
    drop,
    source(loopbackNetwork.IPv4, true),
    destination(loopbackNetwork.IPv4),
    comment("block incoming localnet connections"),
    { kind: "conntrack-state", states: ["RELATED", "ESTABLISHED", "DNAT"], isNegated: true },
  ),
};

/** Rules in chains that kube-ipvs does not own. */
export function fixedJumps({ servesLoopback }: IptablesFamilyOptions): readonly Jump[] {
  return servesLoopback ? [...jumps, blockMartians] : jumps;
}

/**
 * Drops packets that conntrack considers invalid. The source address of such replies is not translated back, so the
 * client would reset the connection (kubernetes/kubernetes issue 74839).
 */
function invalidRules({ hasCounters, tcpBeLiberal }: IptablesOptions): readonly Rule[] {
  const isInvalid: Match = { kind: "conntrack-state", states: ["INVALID"] };
  const isCounted: Match = { kind: "accounting", counter: counters.invalidDropped };
  return tcpBeLiberal ? [] : [rule(drop, isInvalid, ...(hasCounters ? [isCounted] : []))];
}

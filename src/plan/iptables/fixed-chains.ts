/**
 * Chains, rules and jumps that are there whatever Services there are. Names, order and comments are kube-proxy's: it and
 * other software look for them by text. Pure.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Chain, Jump, Match, Rule } from "../../state/rule.ts";
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

/** Created empty in three tables: one that is gone shows that someone flushed a table. */
const canaryChain = "KUBE-PROXY-CANARY";

/** kubelet's chain, which it and kube-proxy share: never emptied, never removed. */
export const kubeletFirewall = { table: "filter", name: "KUBE-FIREWALL" } as const;

/** Counters of the kernel that rules name: nfacct objects, which must exist before. */
export const counters = {
  invalidDropped: "ct_state_invalid_dropped_pkts",
  localhostAccepted: "localhost_nps_accepted_pkts",
} as const;

export const countedLocalhost: Match = { kind: "accounting", counter: counters.localhostAccepted };

/** Whole chains that no Service has a part in. */
export function fixedChains(options: IptablesOptions): readonly Chain[] {
  const { masqueradeMark } = options.shared;
  return [
    chain("nat", "KUBE-POSTROUTING", masqueradeRules(masqueradeMark)),
    chain("nat", "KUBE-MARK-MASQ", [markRule(masqueradeMark)]),
    chain("filter", "KUBE-FORWARD", [...invalidRules(options), ...forwardRules(masqueradeMark)]),
    ...(["mangle", "nat", "filter"] as const).map((table) => chain(table, canaryChain, [])),
  ];
}

/** Rules below those of all Services in KUBE-SERVICES of nat: whatever is left, and local, may be a node port. */
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

/** In insertion order; each goes to the first place, so the last one of a chain stands on top. */
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
 * Node ports on loopback need packets to 127.0.0.0/8 to be routed; from outside none may come in then (CVE-2020-8558).
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

/** Rules of ours in chains that are not. */
export function fixedJumps({ servesLoopback }: IptablesFamilyOptions): readonly Jump[] {
  return servesLoopback ? [...jumps, blockMartians] : jumps;
}

/** Packets that conntrack cannot place would leave with the pod's own address, and end the connection (upstream 74839). */
function invalidRules({ hasCounters, isTcpLiberal }: IptablesOptions): readonly Rule[] {
  const isInvalid: Match = { kind: "conntrack-state", states: ["INVALID"] };
  const isCounted: Match = { kind: "accounting", counter: counters.invalidDropped };
  return isTcpLiberal ? [] : [rule(drop, isInvalid, ...(hasCounters ? [isCounted] : []))];
}

/** Rules for tunnel forwarding, which exist only if `kubeIpvs.tunnelForwarding` is on. Pure. */
import type { Chain, Jump, Match, Rule } from "../state/rule.ts";
import { type ServedRange, servedRangeText } from "../state/served-range.ts";
import { tunnelLinks } from "../state/tunnel-link.ts";
import { matchSet, type RulesInput, when } from "./rule-parts.ts";
import {
  chain,
  comment,
  destination,
  drop,
  fromPods,
  hostNetwork,
  jump,
  ofProtocol,
  type RuleProtocol,
  rule,
  source,
  stop,
  toPort,
} from "./rule-words.ts";

/** The mangle chain marks packets to and from tunnels. The filter chain accepts tunneled packets only from Nodes. */
export const tunnelChain = "KUBE-IPVS-TUNNEL";
/** Drops packets from a tunnel that this node would forward, and tunneled packets that pods send to Nodes. */
export const tunnelForwardChain = "KUBE-IPVS-TUNNEL-FWD";

export const tunnelJumps: readonly Jump[] = [
  jump("mangle", "PREROUTING", tunnelChain, comment("kubernetes tunnel forwarding")),
  jump("filter", "FORWARD", tunnelForwardChain, comment("kubernetes tunneled packets")),
  jump("filter", "INPUT", tunnelChain, comment("kubernetes tunneled packets")),
];

export function tunnelChains(input: RulesInput): readonly Chain[] {
  if (input.isTunnelingEnabled !== true) return [];
  return [
    chain("filter", tunnelChain, inputRules(input)),
    chain("filter", tunnelForwardChain, forwardRules(input)),
    chain("mangle", tunnelChain, markRules(input)),
  ];
}

/**
 * Accepts tunneled packets only from Nodes. The routing rule delivers every packet from the tunnel to this node, so
 * these rules also drop packets from the tunnel whose destination is neither a Node nor this node.
 */
function inputRules(input: RulesInput): readonly Rule[] {
  const isTunneled = ofProtocol(tunnelLinks[input.family].protocol);
  const toOthers: Match = { kind: "address-type", end: "dst", type: "LOCAL", isNegated: true };
  const fromNode = rule(stop, isTunneled, matchSet(input, "tunnelNodes", "src"));
  const toNode = rule(stop, fromTunnel(input), matchSet(input, "tunnelNodes", "dst"));
  return [
    ...when(input, "tunnelNodes", fromNode),
    rule(drop, isTunneled),
    ...when(input, "tunnelNodes", toNode),
    rule(drop, fromTunnel(input), toOthers),
  ];
}

/**
 * If the routing rule is missing, a packet to another node's address would be forwarded back to that node, so packets
 * from a tunnel are not forwarded. Tunneled packets from pods are not forwarded either. They can have any inner source,
 * and masquerading would give them this node's address as their outer source.
 */
function forwardRules(input: RulesInput): readonly Rule[] {
  const isTunneled = ofProtocol(tunnelLinks[input.family].protocol);
  const toNode = rule(drop, isTunneled, matchSet(input, "tunnelNodes", "dst"));
  return [rule(drop, fromTunnel(input)), ...when(input, "tunnelNodes", toNode)];
}

function fromTunnel({ family }: RulesInput): Match {
  return { kind: "in-interface", name: tunnelLinks[family].name, isNegated: false };
}

/**
 * The rules that mark packets to and from tunnels. IPVS compares the whole mark, so the rules replace all of its bits.
 * Packets from a tunnel are dropped unless their address and port are served. Source ranges apply later, in the filter
 * chain INPUT.
 */
function markRules(input: RulesInput): readonly Rule[] {
  const { portRangeMarks = 0, localDetector, tunnels = [], tunnelsWithoutMark = [] } = input;
  const isFromTunnel = fromTunnel(input);
  const unmarked: Match = { kind: "mark", value: 0, mask: portRangeMarks, isNegated: false };
  const into = tunnels.filter(({ tunnel }) => tunnel?.end === "in");
  const out = tunnels.filter(({ tunnel }) => tunnel?.end === "out" && tunnel.hasServers);
  // Other nodes probably lack the same marks as this one, and would drop packets to their node ports.
  const accepted = new Set(into.map(servedRangeText));
  return [
    ...into.flatMap((range) => {
      if (range.tunnel?.isOfOtherNodes === true) return markNodePort(range, input);
      const target = range.tunnel?.hasServers === true ? mark(range) : stop;
      return [rule(target, ...toRange(range, isFromTunnel))];
    }),
    ...tunnelsWithoutMark.map((range) => rule(stop, ...toRange(range, isFromTunnel))),
    rule(drop, isFromTunnel, unmarked),
    rule(stop, isFromTunnel),
    // Pods of this node do not use tunnels: they can reach all endpoints, and an endpoint's reply must return through
    // this node.
    ...(localDetector === undefined ? [] : [rule(stop, fromPods(localDetector, false))]),
    // Packets from other Nodes do not use tunnels: a Node that is chosen for its own packet would drop it, because the
    // packet's source is that Node's own address.
    ...when(input, "tunnelNodes", rule(stop, matchSet(input, "tunnelNodes", "src"))),
    ...out
      .filter((range) => accepted.has(servedRangeText(range)))
      .map((range) => rule(mark(range), ...toRange(range))),
  ];
}

/** Also marks packets without a real server, so that IPVS rejects them and no process on this node receives them. */
function markNodePort(range: ServedRange, input: RulesInput): readonly Rule[] {
  const protocol = protocolOf(range);
  const toNodePort: readonly Match[] = [
    fromTunnel(input),
    ofProtocol(protocol),
    toPort(protocol, range.ranges[0]?.first ?? 0),
    matchSet(input, "tunnelNodes", "dst"),
  ];
  const from = range.sources?.map((one) => [source(one)]) ?? [[]];
  const rules = from.map((matches) => rule(mark(range), ...matches, ...toNodePort));
  return when(input, "tunnelNodes", ...rules);
}

function mark({ mark: value }: ServedRange): Rule["target"] {
  return { kind: "xmark", value, mask: 0xffffffff };
}

function toRange(range: ServedRange, ...arriving: readonly Match[]): readonly Match[] {
  const protocol = protocolOf(range);
  const to = destination(hostNetwork(range.address));
  const port = toPort(protocol, range.ranges[0]?.first ?? 0);
  return [to, ...arriving, ofProtocol(protocol), port];
}

function protocolOf({ protocols: [protocol = "TCP"] }: ServedRange): RuleProtocol {
  return protocol.toLowerCase() as RuleProtocol;
}

/**
 * Rules for the chain that masquerades marked packets after IPVS. Packets keep the client's address, except for packets
 * to an endpoint on another node that no tunnel reaches.
 */
export function masqueradingTunnels(input: RulesInput): readonly Rule[] {
  return (input.tunnels ?? []).flatMap((range) => {
    const isMarked: Match = { kind: "mark", value: range.mark, mask: 0xffffffff, isNegated: false };
    const isOfProtocol = ofProtocol(protocolOf(range));
    const toLocal = rule(stop, isOfProtocol, isMarked, matchSet(input, "loopBack", "dst,dst,dst"));
    return [
      ...when(input, "loopBack", toLocal),
      rule({ kind: "masquerade", isRandomFully: true }, isOfProtocol, isMarked),
    ];
  });
}

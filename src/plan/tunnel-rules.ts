/** Rules for tunnel forwarding, which exist only if `kubeIpvs.tunnelForwarding` is on. Pure. */
import type { Chain, Jump, Match, Rule } from "../state/rule.ts";
import type { ServedRange } from "../state/served-range.ts";
import { tunnelLinks } from "../state/tunnel-link.ts";
import { matchSet, type RulesInput, when } from "./rule-parts.ts";
import {
  chain,
  comment,
  destination,
  destinationIsLocal,
  drop,
  fromPods,
  hostNetwork,
  jump,
  ofProtocol,
  type RuleProtocol,
  rule,
  stop,
  toPort,
} from "./rule-words.ts";

/** The mangle chain marks packets to and from tunnels. The filter chain accepts tunneled packets only from Nodes. */
export const tunnelChain = "KUBE-IPVS-TUNNEL";

export const tunnelJumps: readonly Jump[] = [
  jump("mangle", "PREROUTING", tunnelChain, comment("kubernetes tunnel forwarding")),
  jump("filter", "FORWARD", tunnelChain, comment("kubernetes tunneled packets")),
  jump("filter", "INPUT", tunnelChain, comment("kubernetes tunneled packets")),
];

export function tunnelChains(input: RulesInput): readonly Chain[] {
  if (input.isTunnelingEnabled !== true) return [];
  return [
    chain("filter", tunnelChain, sourceRules(input)),
    chain("mangle", tunnelChain, markRules(input)),
  ];
}

/**
 * A pod may be able to send tunneled packets with any inner source to a Node. Masquerading would give them the node's
 * own outer source, so they are not forwarded.
 */
function sourceRules(input: RulesInput): readonly Rule[] {
  const { protocol } = tunnelLinks[input.family];
  const isTunneled = ofProtocol(protocol);
  const toElsewhere: Match = { kind: "address-type", end: "dst", type: "LOCAL", isNegated: true };
  const toNode = rule(drop, isTunneled, matchSet(input, "tunnelNodes", "dst"), toElsewhere);
  const fromNode = rule(
    stop,
    isTunneled,
    matchSet(input, "tunnelNodes", "src"),
    destinationIsLocal,
  );
  return [
    ...when(input, "tunnelNodes", toNode, fromNode),
    rule(drop, isTunneled, destinationIsLocal),
  ];
}

/**
 * IPVS compares the whole mark, so the rules replace all of its bits. Packets from a tunnel to other addresses and
 * ports are dropped. Source ranges apply later, in filter INPUT.
 */
function markRules(input: RulesInput): readonly Rule[] {
  const { family, portRangeMarks = 0, localDetector, tunnels = [] } = input;
  const fromTunnel: Match = {
    kind: "in-interface",
    name: tunnelLinks[family].name,
    isNegated: false,
  };
  const unmarked: Match = { kind: "mark", value: 0, mask: portRangeMarks, isNegated: false };
  const [into, out] = (["in", "out"] as const).map((end) =>
    tunnels.filter(({ tunnel }) => tunnel?.end === end),
  );
  return [
    ...(into ?? []).map((range) =>
      range.tunnel?.hasServers === true
        ? rule(mark(range), ...toRange(range, fromTunnel))
        : rule(stop, ...toRange(range, fromTunnel)),
    ),
    rule(drop, fromTunnel, unmarked),
    rule(stop, fromTunnel),
    // Pods reach all endpoints without a tunnel, and an endpoint's answer must return through this node.
    ...(localDetector === undefined ? [] : [rule(stop, fromPods(localDetector, false))]),
    ...(out ?? [])
      .filter(({ tunnel }) => tunnel?.hasServers === true)
      .map((range) => rule(mark(range), ...toRange(range))),
  ];
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
 * For the chain that masquerades marked packets after IPVS. The client's address is kept, except for packets to an
 * endpoint on another node that no tunnel reaches.
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

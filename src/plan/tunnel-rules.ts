/** Rules for tunnel forwarding, which exist only if `kubeIpvs.tunnelForwarding` is on. Pure. */
import type { Chain, Jump, Match, Rule } from "../state/rule.ts";
import type { ServedRange } from "../state/served-range.ts";
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
/** Forwards no packets that arrived through a tunnel, and none that pods tunnel to Nodes. */
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

/** The routing rule delivers all packets from the tunnel, although only Nodes' addresses need it. */
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
 * Without its routing rule, a packet to another node's address would be forwarded back to that node. A pod may be able
 * to send tunneled packets with any inner source to a Node. Masquerading would give them the node's own outer source,
 * so they are not forwarded.
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
 * IPVS compares the whole mark, so the rules replace all of its bits. Packets from a tunnel to other addresses and
 * ports are dropped. Source ranges apply later, in filter INPUT.
 */
function markRules(input: RulesInput): readonly Rule[] {
  const { portRangeMarks = 0, localDetector, tunnels = [] } = input;
  const isFromTunnel = fromTunnel(input);
  const unmarked: Match = { kind: "mark", value: 0, mask: portRangeMarks, isNegated: false };
  const [into, out] = (["in", "out"] as const).map((end) =>
    tunnels.filter(({ tunnel }) => tunnel?.end === end),
  );
  return [
    ...(into ?? []).flatMap((range) => {
      if (range.tunnel?.isOfOtherNodes === true) return markNodePort(range, input);
      const target = range.tunnel?.hasServers === true ? mark(range) : stop;
      return [rule(target, ...toRange(range, isFromTunnel))];
    }),
    rule(drop, isFromTunnel, unmarked),
    rule(stop, isFromTunnel),
    // Pods reach all endpoints without a tunnel, and an endpoint's answer must return through this node.
    ...(localDetector === undefined ? [] : [rule(stop, fromPods(localDetector, false))]),
    // A Node that is chosen for its own packets would drop them, because their source is its own address.
    ...when(input, "tunnelNodes", rule(stop, matchSet(input, "tunnelNodes", "src"))),
    ...(out ?? [])
      .filter(({ tunnel }) => tunnel?.hasServers === true)
      .map((range) => rule(mark(range), ...toRange(range))),
  ];
}

/** Also marks packets without a server, so that IPVS rejects them instead of a process on this node. */
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

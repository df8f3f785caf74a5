/** Rules for port ranges, which exist only if `kubeIpvs.portRangeMarks` is set. Pure. */
import type { Chain, Jump, Match, Rule } from "../state/rule.ts";
import type { ServedRange } from "../state/served-range.ts";
import { matchSet, type RulesInput, when } from "./rule-parts.ts";
import {
  accept,
  chain,
  comment,
  destination,
  drop,
  hostNetwork,
  jump,
  jumpTo,
  ofProtocol,
  type RuleProtocol,
  rule,
  source,
  sourceIsLocal,
  stop,
} from "./rule-words.ts";
import { masqueradingTunnels } from "./tunnel-rules.ts";

/** The mangle chain marks packets, and the nat chain masquerades them. */
export const rangesChain = "KUBE-IPVS-RANGES";

/** In mangle, because nat sees only a flow's first packet, but a UDP flow may need a different endpoint later. */
export const rangeJumps: readonly Jump[] = ["OUTPUT", "PREROUTING"].map((from) =>
  jump("mangle", from, rangesChain, comment("kubernetes port ranges")),
);

export function rangeChains(input: RulesInput): readonly Chain[] {
  if (input.portRangeMarks === undefined) return [];
  const { ranges = [] } = input;
  const known = (["loadBalancer", "clusterIp", "externalIp", "externalIpLocal"] as const).flatMap(
    (role) => when(input, role, rule(stop, matchSet(input, role))),
  );
  return [
    // Single ports take precedence over ranges.
    chain("mangle", rangesChain, ranges.length === 0 ? [] : [...known, ...ranges.flatMap(marking)]),
    chain("nat", rangesChain, [
      ...ranges.flatMap((range) => masquerading(range, input)),
      ...masqueradingTunnels(input),
    ]),
  ];
}

/** Matches marked packets. */
export function marked({ portRangeMarks }: RulesInput): readonly Match[] {
  if (portRangeMarks === undefined) return [];
  return [{ kind: "mark", value: 0, mask: portRangeMarks, isNegated: true }];
}

/** Lets packets to ranges skip the rules of other Services, whose node ports may be in the range. */
export function acceptMarked(input: RulesInput): readonly Rule[] {
  return input.portRangeMarks === undefined ? [] : [rule(accept, ...marked(input))];
}

/**
 * Lets packets to ranges skip the address guard, whose sets do not contain the ports of ranges. Ports with tunnels have
 * the usual set entries, so the guard applies to them. The guard blocks these ports as long as source ranges cannot be
 * applied, because the ports' entries are withheld until then.
 */
export function returnMarked(input: RulesInput): readonly Rule[] {
  const { portRangeMarks, ranges = [], tunnels = [] } = input;
  if (portRangeMarks === undefined) return [];
  if (tunnels.length === 0) return [rule(stop, ...marked(input))];
  return ranges.map(({ mark }) => rule(stop, withMark(mark)));
}

export function withMark(value: number): Match {
  return { kind: "mark", value, mask: 0xffffffff, isNegated: false };
}

export function masqueradeMarked(input: RulesInput): readonly Rule[] {
  if (input.portRangeMarks === undefined) return [];
  return [rule(jumpTo(rangesChain), ...marked(input))];
}

/**
 * The rules that mark packets to a range. IPVS compares the whole mark, so the rules replace all of its bits. If there
 * are source ranges, packets from other clients are dropped. If these rules are missing, no packets are marked, so the
 * range is not reachable.
 */
function marking(range: ServedRange): readonly Rule[] {
  const { address, mark, sources, ranges, protocols } = range;
  const to = destination(hostNetwork(address));
  return protocols.flatMap((name) =>
    ranges.flatMap((ports): readonly Rule[] => {
      const protocol = name.toLowerCase() as RuleProtocol;
      const toPorts: Match = {
        kind: "port",
        protocol,
        destination: ports.first,
        ...(ports.last === ports.first ? {} : { last: ports.last }),
      };
      const matches = [to, ofProtocol(protocol), toPorts];
      const set = { kind: "xmark", value: mark, mask: 0xffffffff } as const;
      if (sources === undefined) return [rule(set, ...matches)];
      return [
        ...sources.map((one) => rule(set, source(one), ...matches)),
        rule(drop, ...matches, { kind: "mark", value: mark, mask: 0xffffffff, isNegated: true }),
      ];
    }),
  );
}

/**
 * The rules that masquerade packets to a range. They cannot use KUBE-MARK-MASQ, which would change the mark that IPVS
 * compares. They therefore run after IPVS, where the destination is an endpoint and the mark identifies the address.
 * The input interface is unknown there. If pods are recognized by their interface, all packets to cluster IPs are
 * masqueraded.
 */
function masquerading(range: ServedRange, input: RulesInput): readonly Rule[] {
  const { address, mark, masquerade, localEndpoints } = range;
  const { masqueradeAll, localDetector, edges } = input;
  const isMarked = withMark(mark);
  const hide = (...matches: readonly Match[]): Rule =>
    rule({ kind: "masquerade", isRandomFully: true }, ...matches);
  const toItself = localEndpoints.map((endpoint) =>
    hide(source(hostNetwork(endpoint)), destination(hostNetwork(endpoint)), isMarked),
  );
  if (masquerade === "local") {
    return edges?.masqueradeNodeToLocal === true
      ? [...toItself, hide(isMarked, sourceIsLocal)]
      : toItself;
  }
  if (masquerade === "all" || masqueradeAll || localDetector?.kind === "in-interface")
    return [hide(isMarked)];
  return localDetector === undefined
    ? [...toItself, hide(source(hostNetwork(address)), isMarked)]
    : [...toItself, hide(source(localDetector.cidr, true), isMarked)];
}

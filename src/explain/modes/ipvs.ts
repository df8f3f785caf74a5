import type { Destination } from "../../answer/answers.ts";
import {
  type Cidr,
  cidrContains,
  cidrText,
  familyOf,
  hostPrefixLength,
  parseCidr,
} from "../../base/ip.ts";
import { setFor } from "../../plan/sets.ts";
import { chainKey, type Match } from "../../state/rule.ts";
import { differencesOf } from "../differences.ts";
import { followByIpvs } from "../packet/follow-by-ipvs.ts";
import type { Packet } from "../packet/packet.ts";
import type { PacketPath } from "../packet/path.ts";
import type { NodeNetwork, Picture } from "../packet/picture.ts";
import type { ExplainedMode } from "./mode.ts";

export const ipvsMode: ExplainedMode = {
  name: "ipvs",
  behindChoice: "behind IPVS",
  follow: followByIpvs,
  sourceRanges,
  sourceRangeText,
  masqueradeText,
  localDetector,
  differences: differencesOf,
};

/** Entries of the set of source ranges. */
function sourceRanges(
  { protocol, address, port }: Destination,
  pictures: readonly Picture[],
): readonly Cidr[] {
  const family = familyOf(address);
  const prefix = `${address},${protocol.toLowerCase()}:${port},`;
  const { name } = setFor("loadBalancerSourceCidr", family);
  const texts = new Set(
    pictures.flatMap(({ sets }) =>
      [...(sets.get(name)?.entries ?? [])]
        .filter((entry) => entry.startsWith(prefix))
        .map((entry) => entry.slice(prefix.length)),
    ),
  );
  return [...texts].flatMap(
    (text) => parseCidr(text.includes("/") ? text : `${text}/${hostPrefixLength(family)}`) ?? [],
  );
}

/** `192.168.20.1/32 lets 192.168.20.1 in`. */
function sourceRangeText(packet: Packet, ranges: readonly Cidr[]): string {
  // Its own address is the virtual one there; what counts is the address by which the cluster knows the node.
  if (!packet.isFromNode) return clientRangeText(packet, ranges);
  const all = ranges.map(cidrText).join(", ");
  return `this node gets in where one of ${all} holds its node address`;
}

/** By the address that the packet has. */
export function clientRangeText({ source }: Packet, ranges: readonly Cidr[]): string {
  const range = ranges.find((one) => cidrContains(one, source));
  return range === undefined
    ? `${source} is in none of ${ranges.map(cidrText).join(", ")}`
    : `${cidrText(range)} lets ${source} in`;
}

function masqueradeText({ steps, end }: PacketPath, network: NodeNetwork): string | undefined {
  if (end.kind !== "balanced") return undefined;
  const mark = steps.find(({ rule }) => rule.endsWith("-j KUBE-MARK-MASQ"));
  if (!network.isIpvsTracked) return "none: net.ipv4.vs.conntrack is 0";
  const hairpin = end.endpoints
    .flatMap((endpoint) => endpoint.steps)
    .find(({ rule }) => rule.includes("LOOP-BACK"));
  if (hairpin !== undefined) return `to itself: ${hairpin.entries[0]?.entry} is in KUBE-LOOP-BACK`;
  if (mark === undefined) return "none: no rule marks the packet";
  const isDone = end.endpoints.some(({ isMasqueraded }) => isMasqueraded);
  const without = isDone ? "" : "none, although ";
  return `${without}marked in ${chainKey(mark.table, mark.chain)}: ${mark.rule}`;
}

/** The rule that keeps pods' sources says how they are recognized. */
function localDetector({ chains }: Picture): Match | undefined {
  const rules = chains.get(chainKey("nat", "KUBE-SERVICES")) ?? [];
  return rules
    .flatMap(({ rule }) => rule?.matches ?? [])
    .find((match) => (match.kind === "source" || match.kind === "in-interface") && match.isNegated);
}

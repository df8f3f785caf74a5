import type { Destination } from "../../answer/answers.ts";
import { type Cidr, cidrText, parseCidr } from "../../base/ip.ts";
import { chainKey, type Match, type Rule } from "../../state/rule.ts";
import { isAbout } from "../../state/rules-about.ts";
import { differencesAbout } from "../differences.ts";
import { followThroughTables } from "../packet/follow-through-tables.ts";
import type { PacketPath } from "../packet/path.ts";
import type { Picture } from "../packet/picture.ts";
import { clientRangeText } from "./ipvs.ts";
import type { ExplainedMode } from "./mode.ts";

export const iptablesMode: ExplainedMode = {
  name: "iptables",
  behindChoice: "on their way to the endpoint",
  follow: followThroughTables,
  sourceRanges,
  // Virtual IPs are no addresses of the node: its packets have its own.
  sourceRangeText: clientRangeText,
  masqueradeText,
  localDetector,
  differences: (compared) => differencesAbout(compared, [compared.destination], isOurs),
};

/** Sources that the KUBE-FW- chain of a load-balancer IP lets through. */
function sourceRanges(destination: Destination, pictures: readonly Picture[]): readonly Cidr[] {
  const ranges = pictures.flatMap(({ chains }) =>
    (chains.get(chainKey("nat", "KUBE-SERVICES")) ?? [])
      .flatMap(({ rule }) => (rule === undefined ? [] : [rule]))
      .filter((rule) => isAbout(rule, [destination]))
      .flatMap((rule) => chains.get(chainKey("nat", firewallOf(rule))) ?? [])
      .flatMap(({ rule }) => rule?.matches ?? [])
      .flatMap((match) => (match.kind === "source" ? (parseCidr(match.cidr) ?? []) : [])),
  );
  // It is let in itself where the node is.
  const isOfOthers = ({ address }: Cidr): boolean => address !== destination.address;
  return [...new Map(ranges.map((range) => [cidrText(range), range])).values()].filter(isOfOthers);
}

function firewallOf({ target }: Rule): string {
  return target.kind === "jump" && target.chain.startsWith("KUBE-FW-") ? target.chain : "";
}

function masqueradeText({ steps, end }: PacketPath): string | undefined {
  if (end.kind !== "balanced") return undefined;
  const marks = [...steps, ...end.endpoints.flatMap(({ choice = [] }) => choice)];
  const mark = marks.find(({ rule }) => rule.endsWith("-j KUBE-MARK-MASQ"));
  if (mark === undefined) return "none: no rule marks the packet";
  const marked = `marked in ${chainKey(mark.table, mark.chain)}: ${mark.rule}`;
  if (end.endpoints.some(({ isMasqueraded }) => isMasqueraded)) {
    return mark.chain.startsWith("KUBE-SEP-") ? `to itself: ${marked}` : marked;
  }
  const leaves = end.endpoints.some((one) => one.steps.some(({ hook }) => hook === "POSTROUTING"));
  return leaves
    ? `none, although ${marked}`
    : "none: the endpoint is on this node, in the host's network";
}

/** Rules of a Service treat pods of this node otherwise than others. */
function localDetector({ chains }: Picture): Match | undefined {
  const named = /^nat KUBE-(SVC|SVL|EXT)-/;
  return [...chains]
    .filter(([key]) => named.test(key))
    .flatMap(([, rules]) => rules.flatMap(({ rule }) => rule?.matches ?? []))
    .find(({ kind }) => kind === "source" || kind === "in-interface");
}

/** kubelet writes KUBE-FIREWALL, too. */
function isOurs(key: string): boolean {
  return key.includes(" KUBE-") && key !== chainKey("filter", "KUBE-FIREWALL");
}

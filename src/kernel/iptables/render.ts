/**
 * Rules as text, in exactly the form in which `iptables-save` prints them back, so that a rendered rule
 * and an observed one are equal when their texts are. Pure.
 */
import { cidrText, familyOf, type IpFamily, parseCidr, parseIpAddress } from "../../base/ip.ts";
import type { Match, Rule, Target } from "../../state/rule.ts";
import {
  checkChainName,
  checkComment,
  checkInterfaceName,
  checkKeyword,
  checkNumber,
  checkSetName,
  RuleValueError,
} from "./names.ts";

/**
 * The text behind `-A CHAIN `. Throws a {@link RuleValueError} for values that iptables would refuse or
 * that could change the meaning of the line.
 */
export function renderRule(family: IpFamily, rule: Rule): string {
  const words = rule.matches.map((match) => renderMatch(family, match));
  return [...words, renderTarget(family, rule.target)].filter((word) => word !== "").join(" ");
}

function renderMatch(family: IpFamily, match: Match): string {
  switch (match.kind) {
    case "source":
      return renderSource(family, match.cidr, match.isNegated);
    case "in-interface":
      return `${not(match)}-i ${checkInterfaceName(match.name)}`;
    case "protocol":
      return `-p ${match.protocol}`;
    case "comment":
      return `-m comment --comment ${quote(checkComment(match.text))}`;
    case "mark":
      return `-m mark ${not(match)}--mark ${renderMark(match.value, match.mask)}`;
    case "set":
      return `-m set --match-set ${checkSetName(match.name)} ${renderDirections(match.directions)}`;
    case "conntrack-state":
      return `-m conntrack --ctstate ${renderStates(match.states)}`;
    case "address-type":
      return `-m addrtype ${not(match)}--${match.end}-type ${checkKeyword(match.type)}`;
    case "physical-in":
      return `-m physdev ${not(match)}--physdev-is-in`;
    case "ipvs":
      return renderIpvs(family, match);
  }
}

function renderTarget(family: IpFamily, target: Target): string {
  switch (target.kind) {
    case "accept":
      return "-j ACCEPT";
    case "drop":
      return "-j DROP";
    case "return":
      return "-j RETURN";
    case "reject":
      return `-j REJECT --reject-with ${rejectAnswers[family]}`;
    case "jump":
      return `-j ${checkChainName(target.chain)}`;
    case "xmark":
      return `-j MARK --set-xmark ${hex(target.value)}/${hex(target.mask)}`;
    case "masquerade":
      return target.isRandomFully ? "-j MASQUERADE --random-fully" : "-j MASQUERADE";
  }
}

/** What REJECT answers when not told otherwise. */
export const rejectAnswers: Readonly<Record<IpFamily, string>> = {
  IPv4: "icmp-port-unreachable",
  IPv6: "icmp6-port-unreachable",
};

/** In the order in which iptables prints them: that of the bits in linux/netfilter/xt_conntrack.h. */
const conntrackStates = ["INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"];

function not(match: { readonly isNegated: boolean }): string {
  return match.isNegated ? "! " : "";
}

/** A network of all addresses is not printed, unless negated: it matches everything. */
function renderSource(family: IpFamily, text: string, isNegated: boolean): string {
  const cidr = parseCidr(text);
  if (cidr === undefined || familyOf(cidr.address) !== family) {
    throw new RuleValueError("source", text, `an ${family} network`);
  }
  if (cidr.prefixLength === 0 && !isNegated) return "";
  return `${isNegated ? "! " : ""}-s ${cidrText(cidr)}`;
}

function renderIpvs(family: IpFamily, match: Match & { readonly kind: "ipvs" }): string {
  const address = parseIpAddress(match.address);
  if (address === undefined || familyOf(address) !== family) {
    throw new RuleValueError("virtual address", match.address, `an ${family} address`);
  }
  const protocol = checkNumber("protocol number", match.protocolNumber, 255);
  const port = checkNumber("port", match.port, 65_535);
  return `-m ipvs --vproto ${protocol} --vaddr ${address} --vport ${port}`;
}

function renderMark(value: number, mask: number): string {
  return mask === 0xffffffff ? hex(value) : `${hex(value)}/${hex(mask)}`;
}

function renderDirections(directions: readonly ("src" | "dst")[]): string {
  const isWritable =
    directions.length >= 1 &&
    directions.length <= 6 &&
    directions.every((direction) => direction === "src" || direction === "dst");
  if (isWritable) return directions.join(",");
  throw new RuleValueError("set directions", String(directions), "1 to 6 of src and dst");
}

function renderStates(states: readonly string[]): string {
  const unknown = states.find((state) => !conntrackStates.includes(state));
  if (unknown !== undefined || states.length === 0) {
    throw new RuleValueError("connection state", unknown ?? "", conntrackStates.join(", "));
  }
  return conntrackStates.filter((state) => states.includes(state)).join(",");
}

function hex(value: number): string {
  return `0x${checkNumber("mark", value, 0xffffffff).toString(16)}`;
}

/** As xtables_save_string does: bare when all characters are harmless, else quoted and escaped. */
function quote(text: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
  return `"${text.replaceAll(/["'\\]/g, "\\$&")}"`;
}

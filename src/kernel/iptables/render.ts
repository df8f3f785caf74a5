/**
 * Formats rules exactly as `iptables-save` prints them, so that a rendered rule equals an observed one if and only if
 * their texts are equal. Pure.
 */
import {
  cidrText,
  familyOf,
  hostPort,
  type IpFamily,
  parseCidr,
  parseIpAddress,
} from "../../base/ip.ts";
import type { Match, MatchProtocol, Rule, Target } from "../../state/rule.ts";
import {
  checkChainName,
  checkComment,
  checkCounterName,
  checkInterfaceName,
  checkKeyword,
  checkNumber,
  checkSetName,
  RuleValueError,
} from "./names.ts";

/**
 * The text after `-A CHAIN `. Throws a {@link RuleValueError} for values that iptables would reject or that could
 * change the meaning of the line.
 */
export function renderRule(family: IpFamily, rule: Rule): string {
  const words = rule.matches.map((match) => renderMatch(family, match));
  return [...words, renderTarget(family, rule.target)].filter((word) => word !== "").join(" ");
}

function renderMatch(family: IpFamily, match: Match): string {
  switch (match.kind) {
    case "source":
      return renderNetwork(family, { ...match, option: "-s" });
    case "destination":
      return renderNetwork(family, { ...match, option: "-d" });
    case "in-interface":
      return `${not(match)}-i ${checkInterfaceName(match.name)}`;
    case "protocol":
      return `-p ${protocolWords[match.protocol] ?? match.protocol}`;
    case "echo-request":
      return echoRequestWords[family];
    case "comment":
      return `-m comment --comment ${quote(checkComment(match.text))}`;
    case "port":
      return renderPort(match);
    case "chance":
      return `-m statistic --mode random --probability ${renderProbability(match.probability)}`;
    case "recent-check":
      return `-m recent --rcheck --seconds ${checkNumber("seconds", match.seconds, 0xffffffff)} --reap ${renderList(family, match.list)}`;
    case "recent-set":
      return `-m recent --set ${renderList(family, match.list)}`;
    case "accounting":
      // iptables-save prints two spaces here.
      return `-m nfacct --nfacct-name  ${checkCounterName(match.counter)}`;
    case "mark":
      return `-m mark ${not(match)}--mark ${renderMark(match.value, match.mask)}`;
    case "set":
      return `-m set --match-set ${checkSetName(match.name)} ${renderDirections(match.directions)}`;
    case "conntrack-state":
      return `-m conntrack ${match.isNegated ? "! " : ""}--ctstate ${renderStates(match.states)}`;
    case "address-type":
      return `-m addrtype ${not(match)}--${match.end}-type ${checkKeyword(match.type)}`;
    case "physical-in":
      return `-m physdev ${not(match)}--physdev-is-in`;
    case "ipvs":
      return renderIpvs(family, match);
  }
}

/** Protocols that are written as numbers, because iptables knows their names only if /etc/protocols exists. */
const protocolWords: Readonly<Partial<Record<MatchProtocol, string>>> = {
  ipencap: "4",
  ipv6: "41",
};

/** The match for ICMP echo requests. */
export const echoRequestWords: Readonly<Record<IpFamily, string>> = {
  IPv4: "-p icmp -m icmp --icmp-type 8",
  IPv6: "-p ipv6-icmp -m icmp6 --icmpv6-type 128",
};

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
    case "none":
      return "";
    case "translate":
      return renderTranslation(family, target);
    case "redirect":
      return `-j REDIRECT --to-ports ${checkNumber("port", target.port, 65_535)}`;
    case "xmark":
      return `-j MARK --set-xmark ${hex(target.value)}/${hex(target.mask)}`;
    case "masquerade":
      return target.isRandomFully ? "-j MASQUERADE --random-fully" : "-j MASQUERADE";
  }
}

/** The default reply of REJECT. */
const rejectAnswers: Readonly<Record<IpFamily, string>> = {
  IPv4: "icmp-port-unreachable",
  IPv6: "icmp6-port-unreachable",
};

/** The states in the order in which iptables prints them, which is the bit order in linux/netfilter/xt_conntrack.h. */
const conntrackStates = ["INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"];

function not(match: { readonly isNegated: boolean }): string {
  return match.isNegated ? "! " : "";
}

/** A network that contains all addresses is omitted unless it is negated, because it matches everything. */
function renderNetwork(
  family: IpFamily,
  { kind, cidr: text, isNegated, option }: NetworkMatch & { readonly option: "-s" | "-d" },
): string {
  const cidr = parseCidr(text);
  if (cidr === undefined || familyOf(cidr.address) !== family) {
    throw new RuleValueError(kind, text, `an ${family} network`);
  }
  if (cidr.prefixLength === 0 && !isNegated) return "";
  return `${isNegated ? "! " : ""}${option} ${cidrText(cidr)}`;
}

type NetworkMatch = Match & { readonly kind: "source" | "destination" };

function renderPort({ protocol, destination, last }: Match & { readonly kind: "port" }): string {
  if (destination === undefined) return `-m ${protocol}`;
  const end = last === undefined ? "" : `:${checkNumber("port", last, 65_535)}`;
  return `-m ${protocol} --dport ${checkNumber("port", destination, 65_535)}${end}`;
}

/** Rounds like the kernel, which keeps 31 bits of iptables' ten-digit value. */
function renderProbability(probability: number): string {
  if (!(probability > 0 && probability <= 1)) {
    throw new RuleValueError("probability", String(probability), "a number above 0, at most 1");
  }
  const steps = 2 ** 31;
  return (Math.round(Number(probability.toFixed(10)) * steps) / steps).toFixed(11);
}

/** Formats the options of a `recent` list that distinguishes clients by their full address. */
function renderList(family: IpFamily, list: string): string {
  const mask = family === "IPv4" ? "255.255.255.255" : "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  return `--name ${checkChainName(list)} --mask ${mask} --rsource`;
}

function renderTranslation(
  family: IpFamily,
  { address: text, port }: Target & { readonly kind: "translate" },
): string {
  const address = parseIpAddress(text);
  if (address === undefined || familyOf(address) !== family) {
    throw new RuleValueError("destination", text, `an ${family} address`);
  }
  return `-j DNAT --to-destination ${hostPort(address, checkNumber("port", port, 65_535))}`;
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

/** Quotes like xtables_save_string: text of safe characters is printed as is, other text is quoted and escaped. */
function quote(text: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
  return `"${text.replaceAll(/["'\\]/g, "\\$&")}"`;
}

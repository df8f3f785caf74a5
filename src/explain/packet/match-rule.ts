import { cidrContains, type IpAddress, parseCidr } from "../../base/ip.ts";
import { protocolNumbers } from "../../base/protocol.ts";
import type { Match, Rule } from "../../state/rule.ts";
import { isInPorts } from "../../state/rules-about.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import { findEntry } from "./find-entry.ts";
import { isHere, type NodeState } from "./node-state.ts";
import type { PacketOnPath } from "./packet.ts";

/** A packet at the hook where a rule is evaluated. */
export interface PacketAtRule {
  readonly onPath: PacketOnPath;
  /** False in OUTPUT and POSTROUTING, where rules cannot match the input interface. */
  readonly hasInLink: boolean;
  /** Whether the packet belongs to a connection. */
  readonly isTracked: boolean;
  /** Decides whether a rule with a random match matches. */
  readonly draw: () => boolean;
}

/** An entry that a packet matches, and the name of its set. */
export interface FoundEntry {
  readonly set: string;
  readonly entry: SetEntry;
}

/** Returns the set entries that the rule matched. Undefined if the rule does not match. Pure. */
export function matchRule(
  { matches }: Pick<Rule, "matches">,
  at: PacketAtRule,
  state: NodeState,
): readonly FoundEntry[] | undefined {
  const entries: FoundEntry[] = [];
  for (const match of matches) {
    if (match.kind === "set") {
      const set = state.sets.get(match.name);
      const entry = set && findEntry(set, at.onPath, match.directions);
      if (entry === undefined) return undefined;
      entries.push({ set: match.name, entry });
    } else if (!isMatch(match, at, state)) return undefined;
  }
  return entries;
}

function isMatch(
  match: Exclude<Match, { kind: "set" }>,
  at: PacketAtRule,
  state: NodeState,
): boolean {
  const { onPath } = at;
  const { packet } = onPath;
  switch (match.kind) {
    case "comment":
    case "accounting":
    case "recent-set":
      return true;
    case "chance":
      return at.draw();
    // The traced client is assumed not to be in any list.
    case "recent-check":
      return false;
    case "source":
      return isInside(match.cidr, packet.source) !== match.isNegated;
    case "destination":
      return isInside(match.cidr, onPath.destination) !== match.isNegated;
    case "port":
      return match.protocol.toUpperCase() === packet.protocol && isInPorts(match, onPath.port);
    case "in-interface":
      return isLink(match.name, inLinkOf(at)) !== match.isNegated;
    case "protocol":
      return match.protocol.toUpperCase() === packet.protocol;
    case "echo-request":
      return packet.protocol === "ICMP";
    case "mark":
      return ((onPath.mark & match.mask) >>> 0 === match.value) !== match.isNegated;
    case "conntrack-state":
      return isInState(match, at) !== (match.isNegated === true);
    case "address-type":
      return isOfType(match, onPath, state) !== match.isNegated;
    case "physical-in":
      return (at.hasInLink && packet.isBridged) !== match.isNegated;
    case "ipvs":
      return isVirtual(match, onPath);
  }
}

/** Packets from this node to itself come in through the loopback link. */
function inLinkOf({ hasInLink, onPath: { packet } }: PacketAtRule): string {
  if (!hasInLink) return "";
  return packet.isFromNode ? "lo" : packet.inLink;
}

function isInState(
  { states }: Match & { kind: "conntrack-state" },
  { isTracked, onPath: { packet, destination, port, stage } }: PacketAtRule,
): boolean {
  if (!isTracked || stage === "refusal") return states.includes("INVALID");
  if (stage === "answer") return states.includes("ESTABLISHED");
  const isTranslated = destination !== packet.destination || port !== packet.port;
  const state = stage === undefined ? "NEW" : "ESTABLISHED";
  return states.includes(state) || (isTranslated && states.includes("DNAT"));
}

function isInside(text: string, address: IpAddress): boolean {
  const cidr = parseCidr(text);
  return cidr !== undefined && cidrContains(cidr, address);
}

/** A pattern such as `cni+` matches all names with this prefix. */
export function isLink(pattern: string, name: string): boolean {
  return pattern.endsWith("+") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function isOfType(
  { end, type }: Match & { kind: "address-type" },
  { packet, destination }: PacketOnPath,
  state: NodeState,
): boolean {
  return type === "LOCAL" && isHere(end === "src" ? packet.source : destination, state);
}

function isVirtual(
  { protocolNumber, address, port }: Match & { kind: "ipvs" },
  { packet, virtual }: PacketOnPath,
): boolean {
  if (virtual === undefined || packet.protocol === "ICMP") return false;
  const isProtocol = protocolNumbers[packet.protocol] === protocolNumber;
  return isProtocol && virtual.address === address && virtual.port === port;
}

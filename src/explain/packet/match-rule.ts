import { cidrContains, type IpAddress, isLoopback, parseCidr } from "../../base/ip.ts";
import { protocolNumbers } from "../../base/protocol.ts";
import type { Match, Rule } from "../../state/rule.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import { findEntry } from "./find-entry.ts";
import type { Passing } from "./packet.ts";
import { isLocal, type NodeNetwork, type Picture } from "./picture.ts";

/** What a packet is held against. */
export interface Surroundings {
  readonly picture: Picture;
  readonly network: NodeNetwork;
  /** What the objects say of endpoints: by the keys of real servers that run on this node. */
  readonly onNode: ReadonlySet<string>;
}

/** A packet and the place where a rule sees it. */
export interface Sight {
  readonly passing: Passing;
  /** In OUTPUT and POSTROUTING there is no link through which it came in. */
  readonly hasInLink: boolean;
  /** Asked for each rule that matches by chance. */
  readonly lot: () => boolean;
}

/** An entry that a packet matches, and the name of its set. */
export interface FoundEntry {
  readonly set: string;
  readonly entry: SetEntry;
}

/** The set entries that a matching rule has found; undefined if the rule does not match. Pure. */
export function matchRule(
  { matches }: Rule,
  sight: Sight,
  surroundings: Surroundings,
): readonly FoundEntry[] | undefined {
  const entries: FoundEntry[] = [];
  for (const match of matches) {
    if (match.kind === "set") {
      const set = surroundings.picture.sets.get(match.name);
      const entry = set && findEntry(set, sight.passing, match.directions);
      if (entry === undefined) return undefined;
      entries.push({ set: match.name, entry });
    } else if (!isMatch(match, sight, surroundings)) return undefined;
  }
  return entries;
}

function isMatch(
  match: Exclude<Match, { kind: "set" }>,
  sight: Sight,
  surroundings: Surroundings,
): boolean {
  const { passing } = sight;
  const { packet } = passing;
  switch (match.kind) {
    case "comment":
    case "accounting":
    case "recent-set":
      return true;
    case "chance":
      return sight.lot();
    // A client that nobody remembers is explained.
    case "recent-check":
      return false;
    case "source":
      return isInside(match.cidr, packet.source) !== match.isNegated;
    case "destination":
      return isInside(match.cidr, passing.destination) !== match.isNegated;
    case "port":
      return (
        match.protocol.toUpperCase() === packet.protocol &&
        (match.destination ?? passing.port) === passing.port
      );
    case "in-interface":
      return isLink(match.name, sight.hasInLink ? packet.inLink : "") !== match.isNegated;
    case "protocol":
      return match.protocol.toUpperCase() === packet.protocol;
    case "echo-request":
      return packet.protocol === "ICMP";
    case "mark":
      return ((passing.mark & match.mask) >>> 0 === match.value) !== match.isNegated;
    case "conntrack-state":
      return isInState(match, passing) !== (match.isNegated === true);
    case "address-type":
      return isOfType(match, passing, surroundings) !== match.isNegated;
    case "physical-in":
      return (sight.hasInLink && packet.isBridged) !== match.isNegated;
    case "ipvs":
      return isVirtual(match, passing);
  }
}

/** The first packet of a connection; its destination may be translated. */
function isInState(
  { states }: Match & { kind: "conntrack-state" },
  { packet, destination, port }: Passing,
): boolean {
  const isTranslated = destination !== packet.destination || port !== packet.port;
  return states.includes("NEW") || (isTranslated && states.includes("DNAT"));
}

function isInside(text: string, address: IpAddress): boolean {
  const cidr = parseCidr(text);
  return cidr !== undefined && cidrContains(cidr, address);
}

/** `cni+` stands for every name that begins so. */
function isLink(pattern: string, name: string): boolean {
  return pattern.endsWith("+") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function isOfType(
  { end, type }: Match & { kind: "address-type" },
  { packet, destination }: Passing,
  { picture, network }: Surroundings,
): boolean {
  const address = end === "src" ? packet.source : destination;
  return type === "LOCAL" && (isLoopback(address) || isLocal(address, picture, network));
}

function isVirtual(
  { protocolNumber, address, port }: Match & { kind: "ipvs" },
  { packet, virtual }: Passing,
): boolean {
  if (virtual === undefined || packet.protocol === "ICMP") return false;
  const isProtocol = protocolNumbers[packet.protocol] === protocolNumber;
  return isProtocol && virtual.address === address && virtual.port === port;
}

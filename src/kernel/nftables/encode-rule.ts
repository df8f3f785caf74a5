/** Rules as lists of nf_tables expressions. Pure. Only IPVS mode's matches and targets are supported. */
import {
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  ipAddressToBytes,
  parseCidr,
  parseIpAddress,
} from "../../base/ip.ts";
import { type Protocol, protocolNumbers } from "../../base/protocol.ts";
import type { Match, MatchProtocol, Rule, Target } from "../../state/rule.ts";
import { RuleValueError } from "../iptables/names.ts";
import { chainNameOf } from "./chains.ts";
import {
  addressBytes,
  bitwise,
  compare,
  type End,
  type Expression,
  expression,
  firstRegister,
  loadAddress,
  loadPayload,
  loadPort,
  meta,
  metaKeys,
  payloadBases,
  verdict,
  verdicts,
  word,
} from "./expressions.ts";

/**
 * Encodes a rule of one of our chains. Throws a {@link RuleValueError} for matches and targets that only other modes
 * use.
 */
export function encodeRule(
  family: IpFamily,
  table: string,
  { matches, target }: Rule,
): readonly Expression[] {
  const hasProtocol = matches.some(({ kind }) => kind === "protocol");
  const context = { family, hasProtocol };
  return [
    ...matches.flatMap((match) => encodeMatch(match, context)),
    ...(isCounted(target) ? [expression("counter")] : []),
    ...encodeTarget(family, table, target),
  ];
}

/** Whether a rule counts its packets for `nft list`. */
function isCounted({ kind }: Target): boolean {
  return kind === "drop" || kind === "reject";
}

interface MatchContext {
  readonly family: IpFamily;
  /** The rule already has a protocol match. */
  readonly hasProtocol: boolean;
}

function encodeMatch(match: Match, context: MatchContext): readonly Expression[] {
  const { family } = context;
  switch (match.kind) {
    case "source":
      return network(family, "src", match);
    case "destination":
      return network(family, "dst", match);
    case "in-interface":
      return [meta(metaKeys.inName), compare(interfaceBytes(match.name), match.isNegated)];
    case "protocol":
      return protocol(numberOf(match.protocol));
    case "echo-request":
      return [
        ...protocol(family === "IPv4" ? 1 : 58),
        loadPayload(payloadBases.transport, 0, 1),
        compare(Uint8Array.of(family === "IPv4" ? 8 : 128)),
      ];
    case "comment":
      return [];
    case "port":
      return match.destination === undefined ? [] : port(match.destination, match.last);
    case "mark":
      return [
        meta(metaKeys.mark),
        bitwise(word(match.mask)),
        compare(word(match.value), match.isNegated),
      ];
    case "set":
      return lookup(match, context);
    case "conntrack-state":
      return conntrackState(match);
    case "address-type":
      return addressType(match);
    case "physical-in":
      return physicalIn(match);
    case "ipvs":
      return virtualServer(family, match);
    case "chance":
    case "recent-check":
    case "recent-set":
    case "accounting":
      throw unsupported(match.kind);
  }
}

function encodeTarget(family: IpFamily, table: string, target: Target): readonly Expression[] {
  switch (target.kind) {
    case "accept":
      return verdict(verdicts.accept);
    case "drop":
      return verdict(verdicts.drop);
    case "return":
      return verdict(verdicts.return);
    case "jump":
      return verdict(verdicts.jump, chainNameOf(table, target.chain));
    case "reject":
      // NFT_REJECT_ICMP_UNREACH with "port unreachable".
      return [expression("reject", [1, 0], [2, Uint8Array.of(family === "IPv4" ? 3 : 4)])];
    case "none":
      return [];
    case "xmark":
      return [
        meta(metaKeys.mark),
        bitwise(word(~target.mask), word(target.value)),
        expression("meta", [2, metaKeys.mark], [3, firstRegister]),
      ];
    case "masquerade":
      // NF_NAT_RANGE_PROTO_RANDOM_FULLY.
      return [target.isRandomFully ? expression("masq", [1, 0x10]) : expression("masq")];
    case "translate":
    case "redirect":
      throw unsupported(target.kind);
  }
}

function unsupported(kind: string): RuleValueError {
  return new RuleValueError("match or target", kind, "one that IPVS mode uses");
}

function numberOf(name: MatchProtocol): number {
  if (name === "ipencap") return 4;
  return name === "ipv6" ? 41 : protocolNumbers[name.toUpperCase() as Protocol];
}

function protocol(number: number): readonly Expression[] {
  return [meta(metaKeys.protocol), compare(Uint8Array.of(number))];
}

function port(first: number, last: number = first): readonly Expression[] {
  if (first === last) return [loadPort("dst"), compare(portBytes(first))];
  return [
    loadPort("dst"),
    compare(portBytes(first), ">="),
    loadPort("dst"),
    compare(portBytes(last), "<="),
  ];
}

function portBytes(number: number): Uint8Array {
  return Uint8Array.of(number >> 8, number & 0xff);
}

function network(
  family: IpFamily,
  end: End,
  { cidr: text, isNegated }: Match & { readonly kind: "source" | "destination" },
): readonly Expression[] {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new RuleValueError("network", text, "a network");
  const address = checkAddress(family, cidr.address);
  const value = ipAddressToBytes(address);
  const mask = value.map((_, index) => {
    const bits = Math.min(8, Math.max(0, cidr.prefixLength - index * 8));
    return 0xff & (0xff00 >> bits);
  });
  const isHost = cidr.prefixLength === hostPrefixLength(family);
  return [
    loadAddress(family, end),
    ...(isHost ? [] : [bitwise(mask)]),
    compare(
      value.map((byte, index) => byte & (mask[index] ?? 0)),
      isNegated,
    ),
  ];
}

/** IFNAMSIZ bytes, or only the prefix if the name ends with `+`. */
function interfaceBytes(name: string): Uint8Array {
  const encoded = new TextEncoder().encode(name);
  if (name.endsWith("+")) return encoded.slice(0, -1);
  const padded = new Uint8Array(16);
  padded.set(encoded.subarray(0, 15));
  return padded;
}

/**
 * Looks up a concatenation of fields. The set type determines whether a single field is an address or a port. As in
 * ipset, a port matches only packets of a protocol that has ports. A rule without a protocol match is for health
 * checks, which use TCP.
 */
function lookup(
  { name, directions, type }: Match & { readonly kind: "set" },
  { family, hasProtocol }: MatchContext,
): readonly Expression[] {
  const find = expression("lookup", [1, name], [2, firstRegister]);
  const [end = "dst", portEnd, secondEnd] = directions;
  if (type === "bitmap:port") {
    const ofTcp = hasProtocol ? [] : protocol(protocolNumbers.TCP);
    return [...ofTcp, loadPort(end), find];
  }
  if (portEnd === undefined) return [loadAddress(family, end), find];
  const afterAddress = firstRegister + addressBytes(family) / 4;
  return [
    loadAddress(family, end),
    meta(metaKeys.protocol, afterAddress),
    loadPort(portEnd, afterAddress + 1),
    ...(secondEnd === undefined ? [] : [loadAddress(family, secondEnd, afterAddress + 2)]),
    find,
  ];
}

/** NF_CT_STATE_BIT and NF_CT_STATE_INVALID_BIT, linux/netfilter/nf_conntrack_common.h. */
const stateBits: Readonly<Record<string, number>> = {
  INVALID: 1,
  ESTABLISHED: 2,
  RELATED: 4,
  NEW: 8,
  UNTRACKED: 64,
};

function conntrackState({
  states,
  isNegated,
}: Match & { readonly kind: "conntrack-state" }): readonly Expression[] {
  let bits = 0;
  for (const state of states) {
    const bit = stateBits[state];
    if (bit === undefined) throw new RuleValueError("connection state", state, "a known state");
    bits |= bit;
  }
  // Matches if any of the bits is set.
  return [
    loadConntrack(conntrackKeys.state),
    bitwise(word(bits)),
    compare(word(0), isNegated !== true),
  ];
}

/**
 * The rule sees packets after IPVS has translated them. The conntrack entry still has the original destination, because
 * IPVS does not change an entry's original direction.
 */
function virtualServer(
  family: IpFamily,
  { address, protocolNumber, port: number }: Match & { readonly kind: "ipvs" },
): readonly Expression[] {
  const loadOriginal = (key: number): Expression =>
    expression("ct", [1, firstRegister], [2, key], [3, Uint8Array.of(0)]);
  const addressKey = family === "IPv4" ? conntrackKeys.destinationIp : conntrackKeys.destinationIp6;
  return [
    loadConntrack(conntrackKeys.direction),
    compare(Uint8Array.of(0)),
    loadOriginal(addressKey),
    compare(ipAddressToBytes(checkAddress(family, address))),
    ...protocol(protocolNumber),
    loadOriginal(conntrackKeys.destinationPort),
    compare(portBytes(number)),
  ];
}

/** NFT_CT_*. */
const conntrackKeys = {
  ...{ state: 0, direction: 1 },
  ...{ destinationPort: 12, destinationIp: 20, destinationIp6: 22 },
} as const;

function loadConntrack(key: number): Expression {
  return expression("ct", [1, firstRegister], [2, key]);
}

function addressType({
  end,
  type,
  isNegated,
}: Match & { readonly kind: "address-type" }): readonly Expression[] {
  if (type !== "LOCAL") throw new RuleValueError("address type", type, "LOCAL");
  // NFT_FIB_RESULT_ADDRTYPE; NFTA_FIB_F_SADDR, NFTA_FIB_F_DADDR; RTN_LOCAL.
  return [
    expression("fib", [1, firstRegister], [2, 3], [3, end === "src" ? 1 : 2]),
    compare(word(2), isNegated),
  ];
}

/**
 * nf_tables cannot match the bridge port outside the bridge family. The only rules with this match accept packets from
 * outside to external IPs. If these rules do not accept a packet from a bridge port, no other rule matches the packet
 * either, so the result is the same without the match.
 */
function physicalIn({
  isNegated,
}: Match & { readonly kind: "physical-in" }): readonly Expression[] {
  if (!isNegated) throw unsupported("physical-in");
  return [];
}

function checkAddress(family: IpFamily, text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined || address.includes(":") !== (family === "IPv6")) {
    throw new RuleValueError("address", text, `an ${family} address`);
  }
  return address;
}

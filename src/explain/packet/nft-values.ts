/** The values that an nftables rule's expressions load from a packet, as far as they are known. Pure. */
import { familyOf, type IpAddress, type IpFamily, ipAddressToBytes } from "../../base/ip.ts";
import { protocolNumbers } from "../../base/protocol.ts";
import type { NftBaseChain, NftSet, NftSource } from "../../state/nft-rule.ts";
import { isHere, type NodeState } from "./node-state.ts";
import { isTrackedEarly, type PacketOnPath } from "./packet.ts";

export interface NftPlace {
  readonly chain: NftBaseChain;
  readonly onPath: PacketOnPath;
  readonly state: NodeState;
  /** Whether the packet enters or leaves through a bridge port that is unknown. */
  readonly isBridgePort: boolean;
  /** Finds a set of the rule's table. */
  readonly setOf: (name: string) => NftSet | undefined;
}

/** A value of which only the bits that are set in `mask` are known. */
export interface Value {
  readonly bytes: Uint8Array;
  readonly mask: Uint8Array;
}

export function loadedValue(source: NftSource, place: NftPlace): Value {
  switch (source.from) {
    case "meta":
      return metaValue(source.key, place);
    case "ct":
      return ctValue(source.key, place);
    case "fib":
      return fibValue(source, place);
    case "network":
      return slice(networkHeader(place.onPath), source.offset, source.length);
    case "transport":
      return slice(transportHeader(place.onPath), source.offset, source.length);
  }
}

const familyNumbers: Readonly<Record<IpFamily, number>> = { IPv4: 2, IPv6: 10 };
const etherTypes: Readonly<Record<IpFamily, readonly number[]>> = {
  IPv4: [0x08, 0x00],
  IPv6: [0x86, 0xdd],
};

/** The value for an NFT_META_* key. */
function metaValue(key: number, place: NftPlace): Value {
  const { packet, mark } = place.onPath;
  switch (key) {
    case 1:
      return known(etherTypes[packet.family]);
    case 3:
      return hostWord(mark);
    case 4:
      return indexValue(inLinkOf(place));
    case 5:
      return indexValue(outLinkOf(place));
    case 6:
      return linkValue(inLinkOf(place));
    case 7:
      return linkValue(outLinkOf(place));
    case 15:
      return known([familyNumbers[packet.family]]);
    case 16:
      return known([protocolNumber(place.onPath)]);
    default:
      return unknown(16);
  }
}

function protocolNumber({ packet: { protocol, family } }: PacketOnPath): number {
  if (protocol === "ICMP") return family === "IPv4" ? 1 : 58;
  return protocolNumbers[protocol];
}

/** The packet's input link. Undefined if it is unknown. Empty if packets have no input link at this hook. */
function inLinkOf({
  chain: { hook },
  isBridgePort,
  onPath: { packet },
}: NftPlace): string | undefined {
  if (isBridgePort) return undefined;
  if (hook === "OUTPUT" || hook === "POSTROUTING" || hook === "EGRESS") return "";
  if (packet.isFromNode) return "lo";
  return packet.inLink === "" ? undefined : packet.inLink;
}

function outLinkOf({ chain: { hook }, isBridgePort, ...place }: NftPlace): string | undefined {
  const {
    onPath: { destination },
    state,
  } = place;
  if (isBridgePort) return undefined;
  if (hook === "INGRESS" || hook === "PREROUTING" || hook === "INPUT") return "";
  return isHere(destination, state) ? "lo" : state.network.routes.get(destination)?.link;
}

/** Whether the value is a link other than the loopback link, even if the link is unknown. */
export function isOtherLink(source: NftSource, place: NftPlace): boolean {
  if (source.from !== "meta" || source.key < 4 || source.key > 7) return false;
  return (source.key % 2 === 0 ? inLinkOf(place) : outLinkOf(place)) !== "lo";
}

/** Whether a name or index is the loopback link's. Linux names it `lo` and gives it the index 1. */
export function isLoopback(value: Uint8Array): boolean {
  const loopback = value.length === 4 ? hostWord(1) : linkValue("lo");
  return order(value, loopback.bytes) === 0;
}

/** A link's index, which is known only for the loopback link. */
function indexValue(link: string | undefined): Value {
  return link === "lo" ? hostWord(1) : unknown(4);
}

/** A link's name, padded to IFNAMSIZ bytes. */
function linkValue(name: string | undefined): Value {
  if (name === undefined) return unknown(16);
  const bytes = new Uint8Array(16);
  bytes.set(Buffer.from(name, "latin1").subarray(0, 15));
  return known(bytes);
}

/** NF_IP_PRI_CONNTRACK. */
const trackingPriority = -200;

/** The value for an NFT_CT_* key. */
function ctValue(key: number, { chain, onPath }: NftPlace): Value {
  const { packet, destination, port, stage } = onPath;
  const { hook, priority, isBridge } = chain;
  const isEarly = hook === "INGRESS" || priority < trackingPriority;
  // IP_CT_* as bits: invalid 1, established 2, new 8. Connection tracking in bridges is optional.
  if (isBridge === true) return unknown(4);
  const isUntracked = isEarly && !isTrackedEarly(hook, onPath);
  if (isUntracked || stage === "refusal") return key === 0 ? hostWord(1) : unknown(4);
  if (key === 0) return hostWord(stage === undefined ? 8 : 2);
  if (key === 1) return known([stage === "answer" ? 1 : 0]);
  if (key !== 2) return unknown(4);
  // IPS_DST_NAT is the only status bit that is known here. IPVS does not set it.
  const isTranslated =
    onPath.virtual === undefined && (destination !== packet.destination || port !== packet.port);
  const bytes = new Uint8Array([isTranslated ? 32 : 0, 0, 0, 0]);
  return { bytes, mask: new Uint8Array([stage === "answer" ? 0 : 32, 0, 0, 0]) };
}

/** NFT_FIB_RESULT_ADDRTYPE is 3. RTN_UNICAST is 1 and RTN_LOCAL is 2. */
function fibValue({ result, flags }: Extract<NftSource, { from: "fib" }>, place: NftPlace): Value {
  const { onPath, state } = place;
  if (result === 1) return routeBackValue(flags, place);
  if (result !== 3) return unknown(4);
  const address = (flags & 1) !== 0 ? onPath.packet.source : onPath.destination;
  return hostWord(isHere(address, state) ? 2 : 1);
}

/**
 * The value of `fib saddr . iif oif missing`, as firewalld writes it: whether there is a route to the source through the
 * packet's input link. The kernel does not look up routes for the loopback link. NFTA_FIB_F_SADDR is 1, IIF is 8 and
 * PRESENT is 32.
 */
function routeBackValue(flags: number, { chain, onPath, state }: NftPlace): Value {
  const { source, inLink, isFromNode } = onPath.packet;
  const { routes, unrouted } = state.network;
  const back = routes.get(source);
  const isKnown = back !== undefined || unrouted.has(source);
  if ((flags & 33) !== 33) return unknown(4);
  if (isFromNode && chain.hook === "PREROUTING") return known([1, 0, 0, 0]);
  if (isFromNode || inLink === "" || !isKnown) return unknown(4);
  const isPresent = back !== undefined && ((flags & 8) === 0 || back.link === inLink);
  return known([isPresent ? 1 : 0, 0, 0, 0]);
}

/** The IP header, of which only the addresses and the protocol are known. */
function networkHeader(onPath: PacketOnPath): Value {
  const { packet, destination } = onPath;
  const header = unknown(40);
  const put = (at: number, bytes: Uint8Array | readonly number[]): void => {
    header.bytes.set(bytes, at);
    header.mask.fill(0xff, at, at + bytes.length);
  };
  const isIpv4 = packet.family === "IPv4";
  const bytesOf = (address: IpAddress): readonly number[] =>
    familyOf(address) === packet.family ? [...ipAddressToBytes(address)] : [];
  put(isIpv4 ? 12 : 8, bytesOf(packet.source));
  put(isIpv4 ? 16 : 24, bytesOf(destination));
  put(isIpv4 ? 9 : 6, [protocolNumber(onPath)]);
  return header;
}

/** The transport header. The ports (the client's only in part), TCP flags and the ICMP type are known. */
function transportHeader({ packet, port, stage, endpointPort = 0 }: PacketOnPath): Value {
  const isAnswer = stage === "answer";
  const header = unknown(20);
  const put = (at: number, ...bytes: readonly number[]): void => {
    header.bytes.set(bytes, at);
    header.mask.fill(0xff, at, at + bytes.length);
  };
  if (packet.protocol === "ICMP") {
    const isIpv4 = packet.family === "IPv4";
    const [request, reply] = isIpv4 ? [8, 0] : [128, 129];
    // Destination unreachable, port unreachable.
    if (stage === "refusal") put(0, ...(isIpv4 ? [3, 3] : [1, 4]));
    else put(0, isAnswer ? reply : request, 0);
    return header;
  }
  // Only the highest bit of the client's port is known, because the port is at least lowestClientPort.
  const [clientAt, portAt] = isAnswer ? [2, 0] : [0, 2];
  const known = isAnswer ? endpointPort : port;
  put(portAt, known >> 8, known & 0xff);
  header.bytes[clientAt] = 0x80;
  header.mask[clientAt] = 0x80;
  // The flags are SYN in the first packet, SYN and ACK in the reply, and ACK in later packets.
  if (packet.protocol === "TCP")
    put(13, { first: 0x02, answer: 0x12, later: 0x10, refusal: 0 }[stage ?? "first"]);
  return header;
}
export function slice({ bytes, mask }: Value, from: number, length: number): Value {
  return { bytes: bytes.slice(from, from + length), mask: mask.slice(from, from + length) };
}

export function order(one: Uint8Array, other: Uint8Array): number {
  return Buffer.compare(one, other.subarray(0, one.length));
}

function known(bytes: Uint8Array | readonly number[]): Value {
  return { bytes: Uint8Array.from(bytes), mask: new Uint8Array(bytes.length).fill(0xff) };
}

export function unknown(length: number): Value {
  return { bytes: new Uint8Array(length), mask: new Uint8Array(length) };
}

function hostWord(value: number): Value {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return known(bytes);
}

/**
 * Counters of GET_SERVICE and GET_DEST replies, linux/ip_vs.h. Separate from the codec for speed: all virtual and
 * real servers are read every few seconds, and only a few attributes of each message are needed.
 */
import { familyOf, type IpFamily, ipAddressFromBytes } from "../../base/ip.ts";
import { type Protocol, protocolOfNumber } from "../../base/protocol.ts";
import { TYPE_MASK } from "../../netlink/attribute-field.ts";
import { type ByteReader, isLittleEndianHost } from "../../netlink/byte-reader.ts";
import { DecodeError } from "../../netlink/errors.ts";
import { readGenericHeader } from "../../netlink/generic.ts";
import { ATTRIBUTE_HEADER_BYTES } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import {
  type ConnectionCounts,
  noTraffic,
  type RealServerTraffic,
  type Traffic,
  type VirtualServerTraffic,
} from "../../state/traffic.ts";
import { commands } from "./constants.ts";

/** IPVS_SVC_ATTR_*. Most counters in `stats` have 32 bits; `stats64` exists since Linux 4.1. */
const serviceAttributes = {
  addressFamily: 1,
  protocol: 2,
  address: 3,
  port: 4,
  stats: 10,
  stats64: 12,
} as const;
/** IPVS_DEST_ATTR_*. */
const destinationAttributes = {
  address: 1,
  port: 2,
  weight: 4,
  active: 7,
  inactive: 8,
  stats: 10,
  addressFamily: 11,
  stats64: 12,
} as const;
/** IPVS_STATS_ATTR_*, by number. The attributes after these are rates. */
const counterFields = [
  undefined,
  "connections",
  "packetsIn",
  "packetsOut",
  "bytesIn",
  "bytesOut",
] as const;

/** Undefined for a firewall-mark service, and for an address or protocol that kube-ipvs does not use. */
export function readVirtualServerTraffic(body: ByteReader): VirtualServerTraffic | undefined {
  enter(body, commands.newService);
  let protocol: Protocol | undefined;
  let bytes: Uint8Array | undefined;
  let port: number | undefined;
  let traffic: Traffic = noTraffic;
  let isWide = false;
  let family = 0;
  eachAttribute(body, (type, payload) => {
    switch (type) {
      case serviceAttributes.addressFamily:
        family = payload.u16("address family");
        break;
      case serviceAttributes.protocol:
        protocol = protocolOfNumber(payload.u16("protocol"));
        break;
      case serviceAttributes.address:
        bytes = payload.bytes(payload.remaining, "address");
        break;
      case serviceAttributes.port:
        port = payload.u16be("port");
        break;
      case serviceAttributes.stats:
        if (!isWide) traffic = readCounters(payload);
        break;
      case serviceAttributes.stats64:
        isWide = true;
        traffic = readCounters(payload);
        break;
    }
  });
  if (protocol === undefined || bytes === undefined || port === undefined) return undefined;
  const address = addressOf(family, bytes, body);
  const isMapped = familyOf(address) === "IPv4" && family !== addressFamilies.IPv4;
  return isMapped ? undefined : { protocol, address, port, traffic };
}

/** Decodes a real server of a virtual server of `serverFamily`, with its counters. */
export function readRealServerTraffic(body: ByteReader, serverFamily: IpFamily): RealServerTraffic {
  enter(body, commands.newDestination);
  let bytes: Uint8Array | undefined;
  let family: number = addressFamilies[serverFamily];
  let traffic: Traffic = noTraffic;
  let isWide = false;
  let [port, weight, activeConnections, inactiveConnections] = [0, 0, 0, 0];
  eachAttribute(body, (type, payload) => {
    switch (type) {
      case destinationAttributes.address:
        bytes = payload.bytes(payload.remaining, "address");
        break;
      case destinationAttributes.port:
        port = payload.u16be("port");
        break;
      case destinationAttributes.weight:
        weight = payload.u32("weight");
        break;
      case destinationAttributes.active:
        activeConnections = payload.u32("active connections");
        break;
      case destinationAttributes.inactive:
        inactiveConnections = payload.u32("inactive connections");
        break;
      case destinationAttributes.addressFamily:
        // Can differ from the virtual server's family for tunnels; older kernels send 0.
        family = payload.u16("address family") || family;
        break;
      case destinationAttributes.stats:
        if (!isWide) traffic = readCounters(payload);
        break;
      case destinationAttributes.stats64:
        isWide = true;
        traffic = readCounters(payload);
        break;
    }
  });
  if (bytes === undefined) throw new DecodeError("real server: address missing", body.offset);
  const address = addressOf(family, bytes, body);
  return { address, port, weight, activeConnections, inactiveConnections, traffic };
}

/** Sums the connections of all real servers of one reply. */
export function sumConnections(bodies: readonly ByteReader[]): ConnectionCounts {
  let [activeConnections, inactiveConnections] = [0, 0];
  for (const body of bodies) {
    enter(body, commands.newDestination);
    eachAttribute(body, (type, payload) => {
      if (type === destinationAttributes.active) activeConnections += payload.u32("active");
      if (type === destinationAttributes.inactive) inactiveConnections += payload.u32("inactive");
    });
  }
  return { activeConnections, inactiveConnections };
}

/** Moves the reader into the only attribute of the message. */
function enter(body: ByteReader, expected: number): void {
  const start = body.offset;
  const command = readGenericHeader(body);
  if (command !== expected)
    throw new DecodeError(`IPVS command ${command} where ${expected} belongs`, start);
  body.skip(ATTRIBUTE_HEADER_BYTES, "server");
}

function readCounters(payload: ByteReader): Traffic {
  const traffic = { ...noTraffic };
  eachAttribute(payload, (type, counter) => {
    const field = counterFields[type];
    if (field !== undefined) traffic[field] = readCounter(counter);
  });
  return traffic;
}

/** Reads a counter of 32 or 64 bits. The result is exact up to 9,007 TB. */
function readCounter(payload: ByteReader): number {
  if (payload.remaining === 4) return payload.u32("counter");
  const [first, second] = [payload.u32("counter"), payload.u32("counter")];
  return isLittleEndianHost ? first + second * 2 ** 32 : first * 2 ** 32 + second;
}

function eachAttribute(body: ByteReader, take: (type: number, payload: ByteReader) => void): void {
  while (body.remaining > 0) {
    const length = body.u16("attribute length") - ATTRIBUTE_HEADER_BYTES;
    const type = body.u16("attribute type") & TYPE_MASK;
    if (length < 0) throw new DecodeError(`attribute ${type} without a length`, body.offset);
    body.within(length, "attribute", (payload) => take(type, payload));
    body.align();
  }
}

function addressOf(
  family: number,
  bytes: Uint8Array,
  body: ByteReader,
): ReturnType<typeof ipAddressFromBytes> {
  const length = family === addressFamilies.IPv4 ? 4 : 16;
  if (bytes.length < length) throw new DecodeError(`address of ${bytes.length} bytes`, body.offset);
  return ipAddressFromBytes(bytes.subarray(0, length));
}

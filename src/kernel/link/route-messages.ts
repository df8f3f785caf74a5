/** Route messages: struct rtmsg and RTA_*, linux/rtnetlink.h. */
import type { IpAddress } from "../../base/ip.ts";
import { bytes, type Field, u32 } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { ByteReader } from "../../netlink/byte-reader.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import { ipOf } from "./codec.ts";
import { mainTable, messageTypes } from "./constants.ts";

export interface RouteHeader {
  readonly family: number;
  /** Prefix length of the destination. */
  readonly prefixLength?: number;
  /** Prefix length of the packets' source. */
  readonly originLength?: number;
  readonly table?: number;
  readonly protocol?: number;
  readonly scope?: number;
  readonly type?: number;
}

export interface RouteAttributes {
  readonly destination?: Uint8Array;
  readonly outLink?: number;
  /** The source of packets, and the link through which they come in: RTA_SRC and RTA_IIF. */
  readonly origin?: Uint8Array;
  readonly inLink?: number;
  readonly gateway?: Uint8Array;
  /** The preferred source address. */
  readonly source?: Uint8Array;
  /** Multiple next hops, each a struct rtnexthop followed by attributes. */
  readonly nextHops?: Uint8Array;
  /** Replaces the table number in the header, which has only 8 bits. */
  readonly table?: number;
  /** u16 address family, then the address. Used if the gateway has the other family. */
  readonly via?: Uint8Array;
}

type Route = RouteHeader & RouteAttributes;

const gatewayFields = { gateway: bytes(5), via: bytes(18) } as const satisfies Record<
  string,
  Field<Uint8Array>
>;

const routeAttributes = attributeSet({
  destination: bytes(1),
  origin: bytes(2),
  inLink: u32(3),
  outLink: u32(4),
  source: bytes(7),
  nextHops: bytes(9),
  table: u32(15),
  ...gatewayFields,
});

const nextHopAttributes = attributeSet(gatewayFields);

/**
 * struct rtmsg: u8 family, two prefix lengths, tos, table, protocol, scope, type; u32 flags. Undefined fields are
 * written as 0. The attributes follow.
 */
export function writeRoute(
  writer: MessageWriter,
  {
    family,
    prefixLength = 0,
    originLength = 0,
    table = 0,
    protocol = 0,
    scope = 0,
    type = 0,
  }: RouteHeader,
  attributes: RouteAttributes = {},
): void {
  for (const value of [family, prefixLength, originLength, 0, table, protocol, scope, type])
    writer.u8(value);
  writer.zeros(4);
  routeAttributes.encode(writer, attributes);
}

/** Decodes RTM_NEWROUTE; undefined for any other message. Throws DecodeError. */
export function decodeRoute({ type, body }: Message): Route | undefined {
  if (type !== messageTypes.newRoute) return undefined;
  const family = body.u8("route family");
  body.skip(3, "route lengths and tos");
  const table = body.u8("route table");
  const protocol = body.u8("route protocol");
  const scope = body.u8("route scope");
  const routeType = body.u8("route type");
  body.skip(4, "route flags");
  return { family, table, protocol, scope, type: routeType, ...routeAttributes.decode(body) };
}

/**
 * The gateways of a route in the main table; undefined for any other message. The table is checked here, because old
 * kernels ignore the filter and send the routes of all tables. Throws DecodeError.
 */
export function decodeGateways(message: Message): readonly IpAddress[] | undefined {
  const route = decodeRoute(message);
  if (route?.table !== mainTable) return undefined;
  const hops = [route, ...decodeNextHops(route.nextHops)];
  return hops.flatMap((hop) => gatewayOf(route.family, hop) ?? []);
}

/** struct rtnexthop: u16 total length, u8 flags, u8 weight, s32 link index; padded to 4 bytes. */
function decodeNextHops(bytes: Uint8Array | undefined): readonly RouteAttributes[] {
  const hops: RouteAttributes[] = [];
  const headerBytes = 8;
  for (let rest = bytes ?? new Uint8Array(); rest.length > 0; ) {
    const reader = new ByteReader(rest);
    const length = reader.u16("next hop length");
    reader.skip(headerBytes - 2, "next hop header");
    const attributes = reader.bytes(Math.max(0, length - headerBytes), "next hop attributes");
    hops.push(nextHopAttributes.decode(new ByteReader(attributes)));
    rest = rest.subarray(Math.max(headerBytes, (length + 3) & ~3));
  }
  return hops;
}

function gatewayOf(family: number, { gateway, via }: RouteAttributes): IpAddress | undefined {
  if (via === undefined) return ipOf(family, gateway);
  const reader = new ByteReader(via);
  return ipOf(reader.u16("family of gateway"), reader.bytes(reader.remaining, "gateway"));
}

/** Link and address messages: headers, attributes, values. */
import { type IpAddress, ipAddressFromBytes } from "../../base/ip.ts";
import { bytes, text, u32 } from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet, nested } from "../../netlink/attribute-set.ts";
import type { ByteReader } from "../../netlink/byte-reader.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import type { NodeAddress } from "../kernel.ts";
import { addressFamilies, messageTypes } from "./constants.ts";

/** IFLA_INFO_* */
interface LinkInfoValues {
  readonly kind?: string;
}

/** IFLA_*, linux/if_link.h */
export interface LinkValues {
  readonly name?: string;
  /** Packets; a link made without it gets 1000. */
  readonly transmitQueueLength?: number;
  /** Present on links that were made by software: dummy, veth, bridge. */
  readonly info?: LinkInfoValues;
}

export const linkAttributes: AttributeSet<LinkValues> = attributeSet({
  name: text(3),
  transmitQueueLength: u32(13),
  info: nested(18, attributeSet({ kind: text(1) })),
});

/** IFA_*, linux/if_addr.h: 4 or 16 bytes. */
export interface AddressValues {
  /** The other end on point-to-point links, else the address itself. */
  readonly address?: Uint8Array;
  /** This end; IPv6 sends it on point-to-point links only. */
  readonly local?: Uint8Array;
}

export const addressAttributes: AttributeSet<AddressValues> = attributeSet({
  address: bytes(1),
  local: bytes(2),
});

export interface ObservedLink {
  readonly index: number;
  readonly name: string;
  /** Absent for real devices and loopback. */
  readonly kind?: string;
}

/** struct ifinfomsg: u8 family, u8 pad, u16 type, s32 index, u32 flags, u32 change. 0 index: by name. */
export function writeLinkHeader(writer: MessageWriter, index: number): void {
  writer.zeros(4);
  writer.u32(index);
  writer.zeros(8);
}

/** struct ifaddrmsg: u8 family, u8 prefix length, u8 flags, u8 scope (0 global), u32 link index. */
export function writeAddressHeader(
  writer: MessageWriter,
  header: { readonly family: number; readonly prefixLength: number; readonly linkIndex: number },
): void {
  writer.u8(header.family);
  writer.u8(header.prefixLength);
  writer.zeros(2);
  writer.u32(header.linkIndex);
}

/** Reads RTM_NEWLINK; undefined for another message. Throws DecodeError. */
export function decodeLink({ type, body }: Message): ObservedLink | undefined {
  if (type !== messageTypes.newLink) return undefined;
  body.skip(4, "link family and type");
  const index = body.u32("link index");
  body.skip(8, "link flags");
  const { name = "", info } = linkAttributes.decode(body);
  return { index, name, ...(info?.kind === undefined ? {} : { kind: info.kind }) };
}

/** Reads RTM_NEWADDR; undefined for another message or family. Throws DecodeError. */
export function decodeAddress({ type, body }: Message): NodeAddress | undefined {
  if (type !== messageTypes.newAddress) return undefined;
  const family = body.u8("address family");
  const prefixLength = body.u8("prefix length");
  body.skip(2, "address flags and scope");
  const linkIndex = body.u32("link index");
  const { local, address } = addressAttributes.decode(body);
  const ip = ipOf(family, local ?? address);
  return ip === undefined ? undefined : { address: ip, prefixLength, linkIndex };
}

/** Dumps of all families bring MPLS and others along. */
function ipOf(family: number, address: Uint8Array | undefined): IpAddress | undefined {
  const lengthBytes = family === addressFamilies.IPv4 ? 4 : 16;
  if (family !== addressFamilies.IPv4 && family !== addressFamilies.IPv6) return undefined;
  return address?.length === lengthBytes ? ipAddressFromBytes(address) : undefined;
}

/** For the debug log. */
export function printRouteMessage(type: number, body: ByteReader): string {
  const isAddress = type >= messageTypes.newAddress;
  body.skip(isAddress ? 8 : 16, "header");
  return isAddress ? addressAttributes.print(body) : linkAttributes.print(body);
}

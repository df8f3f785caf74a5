/** Link and address messages: headers, attributes and values. */
import { type IpAddress, ipAddressFromBytes } from "../../base/ip.ts";
import { bytes, text, u32 } from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet, nested } from "../../netlink/attribute-set.ts";
import { ByteReader } from "../../netlink/byte-reader.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import type { NodeAddress } from "../kernel.ts";
import { messageTypes } from "./constants.ts";

/** IFLA_INFO_* */
interface LinkInfoValues {
  readonly kind?: string;
  /** Attributes whose meaning depends on the kind. */
  readonly data?: Uint8Array;
}

/** IFLA_*, linux/if_link.h */
export interface LinkValues {
  readonly name?: string;
  readonly mtuBytes?: number;
  readonly lowerIndex?: number;
  readonly bridgeIndex?: number;
  /** Transmit queue length in packets. The kernel's default for new links is 1000. */
  readonly transmitQueueLength?: number;
  /** Present on links created by software, such as dummy, veth, bridge. */
  readonly info?: LinkInfoValues;
}

export const linkAttributes: AttributeSet<LinkValues> = attributeSet({
  name: text(3),
  mtuBytes: u32(4),
  lowerIndex: u32(5),
  bridgeIndex: u32(10),
  transmitQueueLength: u32(13),
  info: nested(18, attributeSet({ kind: text(1), data: bytes(2) })),
});

/** IFLA_VXLAN_LINK: the link below a VXLAN tunnel. For all other tunnels, the kernel reports it in IFLA_LINK. */
const vxlanAttributes = attributeSet({ lowerIndex: u32(3) });

/** IFA_*, linux/if_addr.h: 4 or 16 bytes. */
export interface AddressValues {
  /** The peer's address on point-to-point links, otherwise the address itself. */
  readonly address?: Uint8Array;
  /** The local address; for IPv6, only sent for point-to-point links. */
  readonly local?: Uint8Array;
}

export const addressAttributes: AttributeSet<AddressValues> = attributeSet({
  address: bytes(1),
  local: bytes(2),
});

export interface ObservedLink {
  readonly index: number;
  readonly name: string;
  /** Absent for hardware devices and loopback. */
  readonly kind?: string;
  readonly isUp: boolean;
  readonly isLoopback: boolean;
  readonly mtuBytes: number;
  /** The link below, for example, a VLAN or a tunnel. Absent if there is none, or if routes select it. */
  readonly lowerIndex?: number;
  /** The bridge or bond of which the link is a port. */
  readonly bridgeIndex?: number;
}

/** IFF_UP and IFF_LOOPBACK, linux/if.h. */
const upFlag = 0x1;
const loopbackFlag = 0x8;

/**
 * struct ifinfomsg: u8 family, u8 pad, u16 type, s32 index, u32 flags, u32 change. Index 0 selects the link by name.
 */
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

/** Decodes RTM_NEWLINK; undefined for any other message. Throws DecodeError. */
export function decodeLink({ type, body }: Message): ObservedLink | undefined {
  if (type !== messageTypes.newLink) return undefined;
  body.skip(4, "link family and type");
  const index = body.u32("link index");
  const flags = body.u32("link flags");
  body.skip(4, "changed link flags");
  const { name = "", mtuBytes = 0, bridgeIndex, info, ...others } = linkAttributes.decode(body);
  const { lowerIndex = 0 } =
    info?.kind === "vxlan" && info.data !== undefined
      ? vxlanAttributes.decode(new ByteReader(info.data))
      : others;
  return {
    ...{ index, name, mtuBytes, isUp: (flags & upFlag) !== 0 },
    isLoopback: (flags & loopbackFlag) !== 0,
    ...(info?.kind === undefined ? {} : { kind: info.kind }),
    ...(lowerIndex === 0 ? {} : { lowerIndex }),
    ...(bridgeIndex === undefined ? {} : { bridgeIndex }),
  };
}

/** Decodes RTM_NEWADDR; undefined for any other message or family. Throws DecodeError. */
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

/** Undefined for families other than IPv4 and IPv6. A dump of all families also contains others, such as MPLS. */
export function ipOf(family: number, address: Uint8Array | undefined): IpAddress | undefined {
  const lengthBytes = family === addressFamilies.IPv4 ? 4 : 16;
  if (family !== addressFamilies.IPv4 && family !== addressFamilies.IPv6) return undefined;
  return address?.length === lengthBytes ? ipAddressFromBytes(address) : undefined;
}

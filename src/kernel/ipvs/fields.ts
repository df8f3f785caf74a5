/** IPVS attribute payloads that need special encoding, linux/ip_vs.h. */
import { familyOf, type IpAddress, type IpFamily } from "../../base/ip.ts";
import type { Field } from "../../netlink/attribute-field.ts";
import { isLittleEndianHost } from "../../netlink/byte-reader.ts";
import type { MessageWriter } from "../../netlink/message.ts";

/**
 * struct ip_vs_flags {u32 flags, u32 mask}: the kernel changes only the flags in the mask. The mask of kube-ipvs
 * contains all flags.
 */
export function flagsWithMask(type: number): Field<number> {
  return {
    type,
    bits: 0,
    widthBytes: 8,
    write(writer, flags) {
      writer.u32(flags);
      writer.u32(0xffffffff);
    },
    read(reader) {
      const flags = reader.u32("flags");
      reader.skip(4, "flag mask");
      return flags;
    },
  };
}

/** Writes a union nf_inet_addr: 16 bytes, with an IPv4 address in the first four. */
export function writeAddress(writer: MessageWriter, type: number, address: IpAddress): void {
  const start = writer.beginAttribute(type);
  writer.ipAddress(address);
  if (familyOf(address) === "IPv4") writer.zeros(12);
  writer.endAttribute(start);
}

/** The netmask of every IPv4 virtual server. */
const wholeAddress = Uint8Array.of(0xff, 0xff, 0xff, 0xff);

/** IPv4: the mask in network order; IPv6: the prefix length as a u32 in host order. */
export function netmaskBytes(family: IpFamily, prefixLength: number): Uint8Array {
  if (family === "IPv4" && prefixLength === 32) return wholeAddress;
  if (family === "IPv6") return new Uint8Array(Uint32Array.of(prefixLength).buffer);
  const mask = prefixLength === 0 ? 0 : (0xffffffff << (32 - prefixLength)) >>> 0;
  return Uint8Array.of(mask >>> 24, (mask >>> 16) & 0xff, (mask >>> 8) & 0xff, mask & 0xff);
}

/** The reverse of {@link netmaskBytes}. For IPv4, counts the bits of the mask. */
export function prefixLengthOf(family: IpFamily, netmask: Uint8Array): number {
  const view = new DataView(netmask.buffer, netmask.byteOffset, 4);
  return family === "IPv6" ? view.getUint32(0, isLittleEndianHost) : bitCount(view.getUint32(0));
}

function bitCount(value: number): number {
  let count = 0;
  for (let rest = value; rest !== 0; rest = (rest & (rest - 1)) >>> 0) count += 1;
  return count;
}

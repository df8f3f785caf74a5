/** Definitions that all netfilter subsystems share: linux/netfilter/nfnetlink.h. */
import type { IpFamily } from "../base/ip.ts";
import type { ByteReader } from "./byte-reader.ts";
import type { MessageWriter } from "./message.ts";

/** AF_*, linux/socket.h. Also used by netlink families outside netfilter. */
export const addressFamilies: Readonly<Record<IpFamily, number>> = { IPv4: 2, IPv6: 10 };

/** NFNL_MSG_BATCH_BEGIN. */
export const transactionBegin = 0x10;
/** NFNL_MSG_BATCH_END. */
export const transactionEnd = 0x11;

/** struct nfgenmsg: u8 family, u8 version 0, u16be resource. */
export function writeNetfilterHeader(writer: MessageWriter, family = 0, resource = 0): void {
  writer.u8(family);
  writer.u8(0);
  writer.u16be(resource);
}

/** Leaves the reader at the attributes. */
export function skipNetfilterHeader(body: ByteReader): void {
  body.skip(4, "nfgenmsg");
}

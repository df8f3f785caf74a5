/** nf_tables messages, for transactions that contain several kinds of messages. linux/netfilter/nf_tables.h. */
import type { IpFamily } from "../../base/ip.ts";
import { text, u32be } from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet } from "../../netlink/attribute-set.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import {
  addressFamilies,
  skipNetfilterHeader,
  writeNetfilterHeader,
} from "../../netlink/netfilter.ts";
import { messageFlags, protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { TransportOptions } from "../../netlink/transport.ts";

/** Our table in both families. Rules can only refer to sets of their own table. */
export const tableName = "kube-ipvs";

export const nftTransportOptions: TransportOptions = { protocol: protocols.netfilter };

/** NFNL_SUBSYS_NFTABLES, linux/netfilter/nfnetlink.h. */
const subsystem = 10;

/** NFT_MSG_*. */
export const commands = {
  newTable: 0,
  getTable: 1,
  deleteTable: 2,
  newChain: 3,
  getChain: 4,
  deleteChain: 5,
  newRule: 6,
  getRule: 7,
  deleteRule: 8,
  newSet: 9,
  getSet: 10,
  deleteSet: 11,
  newElements: 12,
  getElements: 13,
  deleteElements: 14,
  newGeneration: 15,
  getGeneration: 16,
} as const;

/** `inet` and `netdev` tables apply to both families. */
export type NftFamily = IpFamily | "inet" | "netdev" | "bridge";
/** The family names that `nft` prints. */
export const familyWords: Readonly<Record<NftFamily, string>> = {
  ...{ IPv4: "ip", IPv6: "ip6" },
  ...{ inet: "inet", netdev: "netdev", bridge: "bridge" },
};
const nftFamilies: Readonly<Record<NftFamily, number>> = {
  ...addressFamilies,
  ...{ inet: 1, netdev: 5, bridge: 7 },
};

export interface NftMessage {
  readonly command: keyof typeof commands;
  /** Undefined if the message applies to all families. */
  readonly family?: NftFamily;
  /** NLM_F_* flags in addition to those that the transport sets. */
  readonly flags?: number;
  /** Writes the attributes. */
  write(this: void, writer: MessageWriter): void;
  /** A phrase that can follow "Cannot", such as "create nft set". */
  readonly operation: string;
  readonly subject: string;
  /** What error numbers mean for this message, and the remedy. */
  readonly meanings?: Readonly<Record<number, string>>;
}

export function messageType(command: keyof typeof commands): number {
  return (subsystem << 8) | commands[command];
}

export const nftMessageKind: RequestKind<NftMessage> = {
  type: ({ command }) => messageType(command),
  flags: ({ flags = 0 }) => flags,
  encode(writer, { family, write }) {
    writeNetfilterHeader(writer, family === undefined ? 0 : nftFamilies[family]);
    write(writer);
  },
  describe({ operation, subject, meanings }, errno) {
    const meaning = meanings?.[errno];
    return { operation, subject, ...(meaning === undefined ? {} : { meaning }) };
  },
};

/** NFTA_TABLE_*. */
export const tableAttributes: AttributeSet<{ name?: string; flags?: number }> = attributeSet({
  name: text(1),
  flags: u32be(2),
});
/**
 * NFT_TABLE_F_OWNER, since Linux 5.12: only the socket that created the table can change it, and the table is deleted
 * with the socket.
 */
const ownerFlag = 0x2;
/** NFT_TABLE_F_DORMANT: the rules of the table are not evaluated. */
const dormantFlag = 0x1;

/** Whether the rules of the table are not evaluated. */
export function decodeDormant({ body }: Pick<Message, "body">): boolean {
  skipNetfilterHeader(body);
  return ((tableAttributes.decode(body).flags ?? 0) & dormantFlag) !== 0;
}

/** Creates our table if it does not exist. If its rules are not evaluated, enables them. */
export function createTable(family: IpFamily): NftMessage {
  return {
    ...tableMessage("newTable", family, tableName),
    flags: messageFlags.create,
    write: (writer) => tableAttributes.encode(writer, { name: tableName, flags: 0 }),
    operation: "create nft table",
  };
}

/** Creates a table that other software cannot change or delete. */
export function createOwnedTable(family: IpFamily, name: string): NftMessage {
  return {
    ...tableMessage("newTable", family, name),
    flags: messageFlags.create,
    write: (writer) => tableAttributes.encode(writer, { name, flags: ownerFlag }),
    operation: "create nft table",
  };
}

export function tableMessage(
  command: "newTable" | "getTable" | "deleteTable",
  family: IpFamily,
  name: string,
): Omit<NftMessage, "operation"> {
  return {
    command,
    family,
    write: (writer) => tableAttributes.encode(writer, { name }),
    subject: `${familyWords[family]} ${name}`,
  };
}

/** The nft tables of this network namespace: linux/netfilter/nf_tables.h. */
import { text } from "../../netlink/attribute-field.ts";
import { attributeSet, required } from "../../netlink/attribute-set.ts";
import { isInvalid, isUnsupported } from "../../netlink/errors.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";

export interface NftTable {
  /** As `nft list tables` prints it: `ip`, `ip6`, `inet` … */
  readonly family: string;
  readonly name: string;
}

/** NFNL_SUBSYS_NFTABLES in the high byte, NFT_MSG_GETTABLE in the low one. */
const getTable = 0xa01;

/** NFPROTO_*, linux/netfilter.h. */
const families: ReadonlyMap<number, string> = new Map([
  [1, "inet"],
  [2, "ip"],
  [3, "arp"],
  [5, "netdev"],
  [7, "bridge"],
  [10, "ip6"],
]);

/** NFTA_TABLE_*. */
const tableAttributes = attributeSet({ name: text(1) });

const tablesRequest: RequestKind<undefined> = {
  type: () => getTable,
  flags: () => 0,
  // struct nfgenmsg: u8 family, u8 version, u16be resource; family 0 means every one.
  encode: (writer) => writer.zeros(4),
  describe: () => ({ operation: "list", subject: "nft tables" }),
};

/** Every table of every family; none where the kernel has no nf_tables. Throws NetlinkError, DecodeError. */
export async function listNftTables(transport: NetlinkTransport): Promise<readonly NftTable[]> {
  try {
    return await transport.dump(tablesRequest, undefined, ({ body }): NftTable => {
      const family = body.u8("nft family");
      body.skip(3, "netfilter header");
      const name = required(tableAttributes.decode(body).name, "table name", body);
      return { family: families.get(family) ?? String(family), name };
    });
  } catch (error) {
    // nfnetlink's answer for a subsystem that nobody registered.
    if (isInvalid(error) || isUnsupported(error)) return [];
    throw error;
  }
}

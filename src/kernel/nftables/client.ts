import { errno } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { text } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { isNotFound, NetlinkError } from "../../netlink/errors.ts";
import { addressFamilies, writeNetfilterHeader } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportParts } from "../../netlink/transport.ts";
import type { NftTables } from "../kernel.ts";

interface TableName {
  readonly family: IpFamily;
  readonly name: string;
}

/** NFNL_SUBSYS_NFTABLES, linux/netfilter/nfnetlink.h. */
const nftablesSubsystem = 10;
/** High byte: the subsystem. Low byte: NFT_MSG_GETTABLE or NFT_MSG_DELTABLE. linux/netfilter/nf_tables.h. */
const messages = { get: 0xa01, remove: 0xa02 } as const;
/** NFNL_MSG_BATCH_BEGIN and NFNL_MSG_BATCH_END. */
const transactionMessages = { begin: 0x10, end: 0x11 } as const;
/** The family names that `nft` prints. */
const familyWords: Readonly<Record<IpFamily, string>> = { IPv4: "ip", IPv6: "ip6" };

/** NFTA_TABLE_*. */
const tableAttributes = attributeSet({ name: text(1) });

function boundary(type: number): RequestKind<undefined> {
  return {
    type: () => type,
    encode: (writer) => writeNetfilterHeader(writer, 0, nftablesSubsystem),
    describe: () => ({ operation: "change", subject: "nft tables" }),
  };
}

function tableRequest(type: number, operation: string): RequestKind<TableName> {
  return {
    type: () => type,
    encode(writer, { family, name }) {
      writeNetfilterHeader(writer, addressFamilies[family]);
      tableAttributes.encode(writer, { name });
    },
    describe: ({ family, name }) => ({ operation, subject: `${familyWords[family]} ${name}` }),
  };
}

const getRequest = tableRequest(messages.get, "look for nft table");
const removeRequest: RequestKind<TableName> = {
  ...tableRequest(messages.remove, "remove nft table"),
  transaction: {
    begin: boundary(transactionMessages.begin),
    end: boundary(transactionMessages.end),
  },
};

/** The table does not exist, or the kernel does not support nf_tables or this family. */
const absentCodes: ReadonlySet<number> = new Set([
  errno.ENOENT,
  errno.EINVAL,
  errno.EOPNOTSUPP,
  errno.EAFNOSUPPORT,
]);

/**
 * Whole nftables tables; sends the requests of `nft list table` and `nft delete table`. Opens a socket; throws
 * NetlinkError.
 */
export class NftTablesClient implements NftTables {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportParts) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.netfilter });
  }

  async has(family: IpFamily, name: string): Promise<boolean> {
    try {
      const found = await this.#transport.request(getRequest, { family, name }, () => true);
      return found.length > 0;
    } catch (error) {
      if (error instanceof NetlinkError && absentCodes.has(error.errno)) return false;
      throw error;
    }
  }

  async remove(family: IpFamily, name: string): Promise<void> {
    try {
      await this.#transport.request(removeRequest, { family, name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  close(): void {
    this.#transport.close();
  }
}

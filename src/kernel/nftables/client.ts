import type { IpFamily } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { isNotFound, isSubsystemMissing } from "../../netlink/errors.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import type { NftTables } from "../kernel.ts";
import { nftMessageKind, nftTransportOptions, tableMessage } from "./message.ts";

/** The table does not exist, or the kernel does not support nf_tables or this family. */
const isAbsent = (error: unknown): boolean => isNotFound(error) || isSubsystemMissing(error);

/**
 * Whole nftables tables. Sends the same requests as `nft list table` and `nft delete table`. Opens a socket; throws
 * NetlinkError.
 */
export class NftTablesClient implements NftTables {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, nftTransportOptions);
  }

  async has(family: IpFamily, name: string): Promise<boolean> {
    const message = { ...tableMessage("getTable", family, name), operation: "look for nft table" };
    const found = this.#transport.request(nftMessageKind, message, () => true);
    return (await orElse(found, isAbsent, [])).length > 0;
  }

  async remove(family: IpFamily, name: string): Promise<void> {
    const message = { ...tableMessage("deleteTable", family, name), operation: "remove nft table" };
    const [failed] = await this.#transport.transaction(nftMessageKind, [message]);
    if (failed !== undefined && !isNotFound(failed.error)) throw failed.error;
  }

  close(): void {
    this.#transport.close();
  }
}

/** The kernel's generation number for the state of all nft tables: linux/netfilter/nf_tables.h. */
import { u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, required } from "../../netlink/attribute-set.ts";
import { skipNetfilterHeader, writeNetfilterHeader } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport, TransportOptions } from "../../netlink/transport.ts";

export const nftTransportOptions: TransportOptions = { protocol: protocols.netfilter };

/** High byte: NFNL_SUBSYS_NFTABLES. Low byte: NFT_MSG_GETGEN. */
const getGeneration = 0xa10;

/** NFTA_GEN_*. */
const generationAttributes = attributeSet({ id: u32be(1) });

const generationRequest: RequestKind<undefined> = {
  type: () => getGeneration,
  encode: (writer) => writeNetfilterHeader(writer),
  describe: () => ({ operation: "read generation of", subject: "nft tables" }),
};

/** The number of commits by any program to any table of either family. Throws NetlinkError, DecodeError. */
export async function readNftGeneration(transport: NetlinkTransport): Promise<number | undefined> {
  const [id] = await transport.request(generationRequest, undefined, ({ body }) => {
    skipNetfilterHeader(body);
    return required(generationAttributes.decode(body).id, "generation", body);
  });
  return id;
}

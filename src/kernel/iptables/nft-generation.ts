/** The number that the kernel gives each state of all nft tables together: linux/netfilter/nf_tables.h. */
import { u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, required } from "../../netlink/attribute-set.ts";
import { skipNetfilterHeader, writeNetfilterHeader } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport, TransportOptions } from "../../netlink/transport.ts";

export const nftTransportOptions: TransportOptions = { protocol: protocols.netfilter };

/** NFNL_SUBSYS_NFTABLES in the high byte, NFT_MSG_GETGEN in the low one. */
const getGeneration = 0xa10;

/** NFTA_GEN_*. */
const generationAttributes = attributeSet({ id: u32be(1) });

const generationRequest: RequestKind<undefined> = {
  type: () => getGeneration,
  encode: (writer) => writeNetfilterHeader(writer),
  describe: () => ({ operation: "read generation of", subject: "nft tables" }),
};

/** Counts commits of any program, to any table of either family. Throws NetlinkError, DecodeError. */
export async function readNftGeneration(transport: NetlinkTransport): Promise<number | undefined> {
  const [id] = await transport.request(generationRequest, undefined, ({ body }) => {
    skipNetfilterHeader(body);
    return required(generationAttributes.decode(body).id, "generation", body);
  });
  return id;
}

import { u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, required } from "../../netlink/attribute-set.ts";
import { skipNetfilterHeader } from "../../netlink/netfilter.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";
import { type NftMessage, nftMessageKind } from "./message.ts";

/** NFTA_GEN_*. */
const generationAttributes = attributeSet({ id: u32be(1) });

const request: NftMessage = {
  command: "getGeneration",
  write() {},
  operation: "read generation of",
  subject: "nft tables",
};

/** The number of commits by any program to any table of either family. Throws NetlinkError, DecodeError. */
export async function readNftGeneration(transport: NetlinkTransport): Promise<number | undefined> {
  const [id] = await transport.request(nftMessageKind, request, ({ body }) => {
    skipNetfilterHeader(body);
    return required(generationAttributes.decode(body).id, "generation", body);
  });
  return id;
}

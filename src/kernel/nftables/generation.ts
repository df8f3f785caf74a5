import { text, u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, required } from "../../netlink/attribute-set.ts";
import type { Message } from "../../netlink/message.ts";
import { skipNetfilterHeader } from "../../netlink/netfilter.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";
import { type NftMessage, nftMessageKind } from "./message.ts";

/** NFTA_GEN_*. */
const generationAttributes = attributeSet({ id: u32be(1), processId: u32be(2), process: text(3) });

const request: NftMessage = {
  command: "getGeneration",
  write() {},
  operation: "read generation of",
  subject: "nft tables",
};

/** The number of commits by any program to any table. Throws NetlinkError, DecodeError. */
export async function readNftGeneration(transport: NetlinkTransport): Promise<number | undefined> {
  const [id] = await transport.request(nftMessageKind, request, ({ body }) => {
    skipNetfilterHeader(body);
    return required(generationAttributes.decode(body).id, "generation", body);
  });
  return id;
}

/** The process that made a commit, with its PID on the node. Throws DecodeError. */
export function decodeCommit({ body }: Pick<Message, "body">): {
  readonly process?: string;
  readonly processId?: number;
} {
  skipNetfilterHeader(body);
  return generationAttributes.decode(body);
}

/** The socket's port ID, as contained in notifications about its commits. Throws NetlinkError. */
export async function readPortId(transport: NetlinkTransport): Promise<number> {
  const [portId] = await transport.request(nftMessageKind, request, (message) => message.portId);
  return portId ?? 0;
}

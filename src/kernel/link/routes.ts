/** Looks up the route to an address, like `ip route get`. */
import { familyOf, hostPrefixLength, type IpAddress, ipAddressToBytes } from "../../base/ip.ts";
import { bytes, u32 } from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet } from "../../netlink/attribute-set.ts";
import { NetlinkError } from "../../netlink/errors.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportParts } from "../../netlink/transport.ts";
import type { Route, Routes } from "../kernel.ts";
import { decodeLink, ipOf, writeLinkHeader } from "./codec.ts";
import { localRoute, messageTypes } from "./constants.ts";

/** RTA_*, linux/rtnetlink.h */
interface LookupValues {
  readonly destination?: Uint8Array;
  readonly outLink?: number;
  readonly source?: Uint8Array;
}

const lookupAttributes: AttributeSet<LookupValues> = attributeSet({
  destination: bytes(1),
  outLink: u32(4),
  source: bytes(7),
});

const lookupKind: RequestKind<IpAddress> = {
  type: () => messageTypes.getRoute,
  encode: encodeLookup,
  describe: (address) => ({ operation: "find route to", subject: address }),
};

/** struct rtmsg with only the family and the destination length set. */
function encodeLookup(writer: MessageWriter, address: IpAddress): void {
  const family = familyOf(address);
  writer.u8(addressFamilies[family]);
  writer.u8(hostPrefixLength(family));
  writer.zeros(10);
  lookupAttributes.encode(writer, { destination: ipAddressToBytes(address) });
}

interface FoundRoute {
  readonly isLocal: boolean;
  readonly linkIndex: number;
  readonly source: IpAddress | undefined;
}

function decodeRoute({ type, body }: Message): FoundRoute | undefined {
  if (type !== messageTypes.newRoute) return undefined;
  const family = body.u8("route family");
  body.skip(6, "route lengths, tos, table, protocol and scope");
  const isLocal = body.u8("route type") === localRoute;
  body.skip(4, "route flags");
  const { outLink = 0, source } = lookupAttributes.decode(body);
  return { isLocal, linkIndex: outLink, source: ipOf(family, source) };
}

const linkByIndexKind: RequestKind<number> = {
  type: () => messageTypes.getLink,
  encode: (writer, index) => writeLinkHeader(writer, index),
  describe: (index) => ({ operation: "find link", subject: String(index) }),
};

/** Opens a socket. Throws NetlinkError. */
export class RoutesClient implements Routes {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportParts) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.route });
  }

  async find(address: IpAddress): Promise<Route | undefined> {
    try {
      const [route] = await this.#transport.request(lookupKind, address, decodeRoute);
      if (route === undefined) return undefined;
      const { isLocal, linkIndex, source } = route;
      const [link] = await this.#transport.request(linkByIndexKind, linkIndex, decodeLink);
      return {
        isLocal,
        link: link?.name ?? String(linkIndex),
        isBridge: link?.kind === "bridge",
        ...(source === undefined ? {} : { source }),
      };
    } catch (error) {
      // ENETUNREACH, EHOSTUNREACH, EINVAL for a blackhole route, and others: in each case the address is unreachable.
      if (error instanceof NetlinkError) return undefined;
      throw error;
    }
  }

  close(): void {
    this.#transport.close();
  }
}

/** Looks up the route to an address, like `ip route get`, and lists links. */
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  ipAddressToBytes,
} from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { u32 } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { isUnsupported, NetlinkError } from "../../netlink/errors.ts";
import type { Message } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { NetlinkTransport, type TransportDependencies } from "../../netlink/transport.ts";
import type { MarkRule } from "../../state/mark-rule.ts";
import type { Arrival, Route, Routes } from "../route.ts";
import { decodeLink, ipOf, type ObservedLink, writeLinkHeader } from "./codec.ts";
import { localRoute, messageTypes } from "./constants.ts";
import { listLinksKind } from "./requests.ts";
import { decodeRoute, writeRoute } from "./route-messages.ts";

interface Lookup {
  readonly address: IpAddress;
  readonly arrival?: Arrival | undefined;
}

const lookupKind: RequestKind<Lookup> = {
  type: () => messageTypes.getRoute,
  encode(writer, { address, arrival }) {
    const family = familyOf(address);
    const prefixLength = hostPrefixLength(family);
    const header = { family: addressFamilies[family], prefixLength };
    const destination = ipAddressToBytes(address);
    if (arrival === undefined) return writeRoute(writer, header, { destination });
    const { source, linkIndex: inLink } = arrival;
    const attributes = { destination, origin: ipAddressToBytes(source), inLink };
    writeRoute(writer, { ...header, originLength: prefixLength }, attributes);
  },
  describe: ({ address }) => ({ operation: "find route to", subject: address }),
};

const linkByIndexKind: RequestKind<number> = {
  type: () => messageTypes.getLink,
  encode: (writer, index) => writeLinkHeader(writer, index),
  describe: (index) => ({ operation: "find link", subject: String(index) }),
};

const listRulesKind: RequestKind<IpFamily> = {
  type: () => messageTypes.getRule,
  // struct fib_rule_hdr has the size of struct rtmsg.
  encode: (writer, family) => writeRoute(writer, { family: addressFamilies[family] }),
  describe: (family) => ({ operation: `list ${family}`, subject: "routing rules" }),
};

/** FRA_*, linux/fib_rules.h. */
const ruleAttributes = attributeSet({ mark: u32(10), table: u32(15), mask: u32(16) });
/** FIB_RULE_INVERT. */
const negatedFlag = 2;

/** Empty for a rule without a mark; undefined for any other message. Throws DecodeError. */
function decodeMarkRule({ type, body }: Message): readonly MarkRule[] | undefined {
  if (type !== messageTypes.newRule) return undefined;
  body.skip(8, "rule header");
  const flags = body.u32("rule flags");
  const { mark = 0, mask = 0, table = 0 } = ruleAttributes.decode(body);
  return mask === 0 ? [] : [{ mark, mask, table, isNegated: (flags & negatedFlag) !== 0 }];
}

/** Opens a socket. Throws NetlinkError. */
export class RoutesClient implements Routes {
  readonly #transport: NetlinkTransport;

  constructor(parts: TransportDependencies) {
    this.#transport = new NetlinkTransport(parts, { protocol: protocols.route });
  }

  async find(address: IpAddress, arrival?: Arrival): Promise<Route | undefined> {
    try {
      const [route] = await this.#transport.request(lookupKind, { address, arrival }, decodeRoute);
      if (route === undefined) return undefined;
      const { family, type, outLink = 0 } = route;
      const source = ipOf(family, route.source);
      const [link] = await this.#transport.request(linkByIndexKind, outLink, decodeLink);
      return {
        isLocal: type === localRoute,
        link: link?.name ?? String(outLink),
        linkIndex: outLink,
        isBridge: link?.kind === "bridge",
        ...(source === undefined ? {} : { source }),
      };
    } catch (error) {
      // Every error means that the address is unreachable: ENETUNREACH, EHOSTUNREACH, EINVAL for a blackhole route, and
      // others.
      if (error instanceof NetlinkError) return undefined;
      throw error;
    }
  }

  listLinks(): Promise<readonly ObservedLink[]> {
    return this.#transport.dump(listLinksKind, undefined, decodeLink);
  }

  /** The routing rules of a family that select packets by their mark. */
  async listMarkRules(family: IpFamily): Promise<readonly MarkRule[]> {
    const rules = this.#transport.dump(listRulesKind, family, decodeMarkRule);
    return (await orElse(rules, isUnsupported, [])).flat();
  }

  close(): void {
    this.#transport.close();
  }
}

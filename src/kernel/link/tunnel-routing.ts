/**
 * The routing rule that delivers tunneled packets on this node. It is needed because a packet to another node's node
 * port still has that node's address as its destination, which is not local here. Rules in mangle drop all other
 * packets from the tunnel before they are routed.
 */
import type { IpFamily } from "../../base/ip.ts";
import { text, u8, u32 } from "../../netlink/attribute-field.ts";
import { attributeSet } from "../../netlink/attribute-set.ts";
import { isAlreadyExists, isNotFound, isUnsupported } from "../../netlink/errors.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";
import {
  hostScope,
  localRoute,
  loopbackIndex,
  messageTypes,
  ownRouteProtocol,
} from "./constants.ts";
import { writeRoute } from "./route-messages.ts";

interface RoutingRequest {
  readonly operation: "add" | "remove";
  readonly object: "route" | "rule";
  readonly family: IpFamily;
}

/** The rule is evaluated before those of most other software, whose priorities are at least 100. */
const ruleTable = 75_075;
const rulePriority = 75;

/** FRA_*, linux/fib_rules.h. The rule exists whether or not a link has this name. */
const ruleAttributes = attributeSet({
  inLink: text(3),
  priority: u32(6),
  table: u32(15),
  protocol: u8(21),
});
/** FR_ACT_TO_TBL. */
const lookUpTable = 1;

/** The same requests as `ip route add local default dev lo table …` and `ip rule add iif NAME lookup …`. */
const routingKind: RequestKind<RoutingRequest> = {
  type: ({ operation, object }) => routingTypes[object][operation],
  flags: ({ operation }) =>
    operation === "add" ? messageFlags.create | messageFlags.exclusive : 0,
  encode(writer, { object, family: name }) {
    const family = addressFamilies[name];
    if (object === "route") {
      const header = { family, protocol: ownRouteProtocol, scope: hostScope, type: localRoute };
      return writeRoute(writer, header, { outLink: loopbackIndex, table: ruleTable });
    }
    // struct fib_rule_hdr has the size of struct rtmsg, and the action is where the type is.
    writeRoute(writer, { family, type: lookUpTable });
    const ours = { priority: rulePriority, table: ruleTable, protocol: ownRouteProtocol };
    ruleAttributes.encode(writer, { inLink: tunnelLinks[name].name, ...ours });
  },
  describe: ({ operation, object, family }) => ({
    operation: `${operation} ${family} ${object === "rule" ? "routing rule" : "route"} for packets from`,
    subject: tunnelLinks[family].name,
  }),
};

const routingTypes = {
  route: { add: messageTypes.newRoute, remove: messageTypes.deleteRoute },
  rule: { add: messageTypes.newRule, remove: messageTypes.deleteRule },
} as const;

/** Adds or removes the rule and its route. Succeeds if they already exist, or no longer exist. */
export async function changeTunnelRouting(
  transport: NetlinkTransport,
  operation: RoutingRequest["operation"],
  family: IpFamily,
): Promise<void> {
  const isDone = (error: unknown): boolean =>
    operation === "add" ? isAlreadyExists(error) : isNotFound(error) || isUnsupported(error);
  for (const object of ["route", "rule"] as const)
    await transport.request(routingKind, { operation, object, family }).catch((error) => {
      if (!isDone(error)) throw error;
    });
}

/** Messages that bind virtual IPs: addresses on the link, or local routes. */
import { errno } from "../../base/errno.ts";
import { familyOf, hostPrefixLength, type IpAddress, ipAddressToBytes } from "../../base/ip.ts";
import { ipAddress } from "../../netlink/attribute-field.ts";
import { writeAttribute } from "../../netlink/attribute-set.ts";
import type { Description } from "../../netlink/errors.ts";
import type { Message, MessageWriter } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import { ipOf, writeAddressHeader } from "./codec.ts";
import {
  hostScope,
  localRoute,
  localTable,
  loopbackIndex,
  messageTypes,
  ownRouteProtocol,
} from "./constants.ts";
import { meaningOf } from "./requests.ts";
import { decodeRoute, writeRoute } from "./route-messages.ts";

export interface BindingRequest {
  readonly kind: "add" | "remove";
  readonly form: "address" | "route";
  readonly address: IpAddress;
  readonly linkName: string;
  readonly linkIndex: number;
}

/**
 * The same request as `ip address add ADDRESS/32 dev NAME` (scope global, unlimited lifetime) or `ip route append local
 * …`.
 */
export const bindingRequestKind: RequestKind<BindingRequest> = {
  type: ({ kind, form }) => bindingMessageTypes[form][kind],
  flags: ({ kind, form }) => (kind === "add" ? creationFlags[form] : 0),
  encode: (writer, request) =>
    request.form === "address" ? encodeAddress(writer, request) : encodeLocalRoute(writer, request),
  describe: ({ kind, form, address, linkName }, number): Description => ({
    operation: `${kind} ${form === "address" ? "address" : "local route"}`,
    subject: `${address} ${kind === "add" ? "to" : "from"} ${linkName}`,
    ...meaningOf(bindingMeanings, number),
  }),
};

const bindingMessageTypes = {
  address: { add: messageTypes.newAddress, remove: messageTypes.deleteAddress },
  route: { add: messageTypes.newRoute, remove: messageTypes.deleteRoute },
} as const;

/**
 * NLM_F_APPEND places our route after the kernel's own route for the same address. Our route remains if the kernel's
 * route is removed.
 */
const creationFlags = {
  address: messageFlags.create | messageFlags.exclusive,
  route: messageFlags.create | messageFlags.append,
} as const;

const bindingMeanings: ReadonlyMap<number, string> = new Map([
  [errno.ENODEV, "the link is gone, or has no IPv6 (sysctl net.ipv6.conf.*.disable_ipv6)"],
  [errno.EACCES, "IPv6 is turned off (sysctl net.ipv6.conf.*.disable_ipv6)"],
  [errno.EOPNOTSUPP, "the kernel has no IPv6"],
  [errno.EPERM, "kube-ipvs needs CAP_NET_ADMIN"],
]);

/** Whether the errno means that the desired state already exists: the address is already bound or already removed. */
export function isBindingDone({ kind, form }: BindingRequest, number: number): boolean {
  if (kind === "add") return number === errno.EEXIST;
  if (number === errno.ENODEV) return true;
  return number === (form === "address" ? errno.EADDRNOTAVAIL : errno.ESRCH);
}

function encodeAddress(writer: MessageWriter, { address, linkIndex }: BindingRequest): void {
  const family = familyOf(address);
  const prefixLength = hostPrefixLength(family);
  writeAddressHeader(writer, { family: addressFamilies[family], prefixLength, linkIndex });
  writeAttribute(writer, bothEnds.address, address);
  writeAttribute(writer, bothEnds.local, address);
}

/** IFA_ADDRESS and IFA_LOCAL, as in `addressAttributes`. */
const bothEnds = { address: ipAddress(1), local: ipAddress(2) } as const;

/** The same request as `ip route append local ADDRESS dev lo table local scope host proto 75`. */
function encodeLocalRoute(writer: MessageWriter, { address }: BindingRequest): void {
  writeRoute(
    writer,
    { ...ownLocalRoute, prefixLength: hostPrefixLength("IPv4"), scope: hostScope },
    { destination: ipAddressToBytes(address), outLink: loopbackIndex },
  );
}

/** The same request as `ip route show table local proto 75`. The kernel filters by table and protocol. */
export const listLocalRoutesKind: RequestKind<undefined> = {
  type: () => messageTypes.getRoute,
  encode: (writer) => writeRoute(writer, ownLocalRoute),
  describe: () => ({ operation: "list local routes", subject: "IPv4" }),
};

const ownLocalRoute = {
  family: addressFamilies.IPv4,
  table: localTable,
  protocol: ownRouteProtocol,
  type: localRoute,
} as const;

/** The destination of one of our local routes; undefined for any other message. Throws DecodeError. */
export function decodeLocalRoute(message: Message): IpAddress | undefined {
  const route = decodeRoute(message);
  const isOurs =
    route?.family === addressFamilies.IPv4 &&
    route.table === localTable &&
    route.protocol === ownRouteProtocol;
  return isOurs ? ipOf(route.family, route.destination) : undefined;
}

/** Requests about links, addresses and routes as netlink messages. */
import { errno } from "../../base/errno.ts";
import type { IpFamily } from "../../base/ip.ts";
import { orElse } from "../../base/or-else.ts";
import { type Description, isNotFound } from "../../netlink/errors.ts";
import type { MessageWriter } from "../../netlink/message.ts";
import { addressFamilies } from "../../netlink/netfilter.ts";
import { messageFlags } from "../../netlink/netlink-package.ts";
import type { RequestKind } from "../../netlink/request.ts";
import type { NetlinkTransport } from "../../netlink/transport.ts";
import {
  decodeLink,
  linkAttributes,
  type ObservedLink,
  writeAddressHeader,
  writeLinkHeader,
} from "./codec.ts";
import { mainTable, messageTypes, unicastRoute } from "./constants.ts";
import { writeRoute } from "./route-messages.ts";

export type LinkRequest =
  | { readonly operation: "find" | "create"; readonly name: string }
  | { readonly operation: "remove"; readonly name: string; readonly index: number };

export const linkRequestKind: RequestKind<LinkRequest> = {
  type: ({ operation }) => linkMessageTypes[operation],
  flags: ({ operation }) =>
    operation === "create" ? messageFlags.create | messageFlags.exclusive : 0,
  encode: encodeLinkRequest,
  describe: ({ operation, name }, number): Description => ({
    operation: `${operation} link`,
    subject: name,
    ...meaningOf(linkMeanings, number),
  }),
};

/** The link with a name, of any kind. */
export async function findLink(
  transport: NetlinkTransport,
  name: string,
): Promise<ObservedLink | undefined> {
  const links = transport.request(linkRequestKind, { operation: "find", name }, decodeLink);
  return (await orElse(links, isNotFound, []))[0];
}

const linkMessageTypes = {
  find: messageTypes.getLink,
  create: messageTypes.newLink,
  remove: messageTypes.deleteLink,
} as const;

const linkMeanings: ReadonlyMap<number, string> = new Map([
  [errno.EOPNOTSUPP, "the kernel has no dummy interfaces: run modprobe dummy on the node"],
  [errno.EPERM, "kube-ipvs needs CAP_NET_ADMIN"],
]);

/** The same request as `ip link add NAME txqueuelen 0 type dummy`. A new link is DOWN. */
function encodeLinkRequest(writer: MessageWriter, request: LinkRequest): void {
  const { operation, name } = request;
  writeLinkHeader(writer, operation === "remove" ? request.index : 0);
  if (operation === "find") linkAttributes.encode(writer, { name });
  if (operation === "create") {
    linkAttributes.encode(writer, { name, transmitQueueLength: 0, info: { kind: "dummy" } });
  }
}

export const listLinksKind: RequestKind<undefined> = {
  type: () => messageTypes.getLink,
  encode: (writer) => writeLinkHeader(writer, 0),
  describe: () => ({ operation: "list links", subject: "" }),
};

/** Lists all addresses of all links, both families. */
export const listAddressesKind: RequestKind<undefined> = {
  type: () => messageTypes.getAddress,
  encode: (writer) => writeAddressHeader(writer, { family: 0, prefixLength: 0, linkIndex: 0 }),
  describe: () => ({ operation: "list addresses", subject: "" }),
};

/** The same request as `ip route show table main`, for one family. */
export const listRoutesKind: RequestKind<IpFamily> = {
  type: () => messageTypes.getRoute,
  encode: (writer, family) =>
    writeRoute(writer, { family: addressFamilies[family], table: mainTable, type: unicastRoute }),
  describe: (family) => ({ operation: "list routes", subject: family }),
};

/** The meaning of an error, if it is known. */
export function meaningOf(
  meanings: ReadonlyMap<number, string>,
  number: number,
): { readonly meaning?: string } {
  const meaning = meanings.get(number);
  return meaning === undefined ? {} : { meaning };
}

import { broadcastOf, type IpAddress, isIpv6LinkLocal, isLoopback } from "../../base/ip.ts";
import type { DummyLink, Kernel } from "../../kernel/kernel.ts";

/** This node's addresses, except loopback and IPv6 link-local addresses. */
export interface ObservedAddresses {
  /** Addresses on kube-ipvs0. Undefined if the link does not exist. */
  readonly bound: readonly IpAddress[] | undefined;
  /** Addresses on all other links, up or down. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /** Broadcast addresses of the IPv4 networks on these links. */
  readonly broadcasts: ReadonlySet<IpAddress>;
}

/** Reads links and addresses. Rejects if the kernel cannot be read. */
export async function readAddresses({
  link,
}: {
  readonly link: Pick<DummyLink, "find" | "listAddresses">;
}): Promise<ObservedAddresses> {
  return readWith(link, () => link.find());
}

/**
 * Reads the addresses of all links except our kube-ipvs0. A foreign link with that name is treated like any other link,
 * because code that needs our own link reports the conflict.
 */
export async function readNodeAddresses({
  link,
}: Pick<Kernel, "link">): Promise<ObservedAddresses["ofNode"]> {
  return (await readWith(link, () => link.find().catch(() => undefined))).ofNode;
}

async function readWith(
  link: Pick<DummyLink, "listAddresses">,
  find: DummyLink["find"],
): Promise<ObservedAddresses> {
  const before = await find();
  const addresses = await link.listAddresses();
  // Look up the link again, because it may have been removed or created during the listing. In either case, its
  // addresses are not node addresses.
  const dummy = await find();
  const bound: IpAddress[] = [];
  const ofNode = new Set<IpAddress>();
  const broadcasts = new Set<IpAddress>();
  for (const { address, prefixLength, linkIndex } of addresses) {
    if (!isServiceable(address)) continue;
    if (linkIndex === dummy?.index) bound.push(address);
    else if (linkIndex !== before?.index) ofNode.add(address);
    const broadcast = broadcastOf({ address, prefixLength });
    if (broadcast !== undefined) broadcasts.add(broadcast);
  }
  return { bound: dummy === undefined ? undefined : bound, ofNode, broadcasts };
}

function isServiceable(address: IpAddress): boolean {
  return !isLoopback(address) && !isIpv6LinkLocal(address);
}

import { broadcastOf, type IpAddress, isIpv6LinkLocal, isLoopback } from "../../base/ip.ts";
import type { DummyLink, Kernel } from "../../kernel/kernel.ts";

/** The addresses of this node, neither loopback nor IPv6 link-local. */
export interface ObservedAddresses {
  /** On kube-ipvs0, each once; absent where there is no such link. */
  readonly bound: readonly IpAddress[] | undefined;
  /** On all other links, up or down. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /** Of the IPv4 networks of those links. */
  readonly broadcasts: ReadonlySet<IpAddress>;
}

/** Reads links and addresses. Rejects with what the kernel says. */
export async function readAddresses({
  link,
}: {
  readonly link: Pick<DummyLink, "find" | "listAddresses">;
}): Promise<ObservedAddresses> {
  return readWith(link, () => link.find());
}

/**
 * Reads the addresses of all links but kube-ipvs0. A link of that name that is not ours is one of them: what is wrong with it
 * is reported by whoever needs ours.
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
  // It may have gone meanwhile, with its addresses, or come: they are none of the node's either way.
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

import { broadcastOf, type IpAddress, isIpv6LinkLocal, isLoopback } from "../../base/ip.ts";
import type { Kernel } from "../../kernel/kernel.ts";

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
export async function readAddresses({ link }: Pick<Kernel, "link">): Promise<ObservedAddresses> {
  const dummy = await link.find();
  const bound: IpAddress[] = [];
  const ofNode = new Set<IpAddress>();
  const broadcasts = new Set<IpAddress>();
  for (const { address, prefixLength, linkIndex } of await link.listAddresses()) {
    if (!isServiceable(address)) continue;
    if (linkIndex === dummy?.index) bound.push(address);
    else ofNode.add(address);
    const broadcast = broadcastOf({ address, prefixLength });
    if (broadcast !== undefined) broadcasts.add(broadcast);
  }
  return { bound: dummy === undefined ? undefined : bound, ofNode, broadcasts };
}

function isServiceable(address: IpAddress): boolean {
  return !isLoopback(address) && !isIpv6LinkLocal(address);
}

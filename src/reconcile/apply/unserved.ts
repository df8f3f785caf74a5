/**
 * Addresses that none of our virtual servers serves. On kube-ipvs0 they would be the node's own: what is sent to them would
 * end here, at whatever listens on that port. Pure.
 */
import type { IpAddress } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Change } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";

type Wanted = Pick<DesiredView, "virtualServer" | "serversOfAddress">;

/** Whether one of the virtual servers for which an address is bound is made. What a third party has there does not count. */
export function isServedBy(
  address: IpAddress,
  desired: Wanted,
  isMade: (virtualServerKey: string) => boolean,
): boolean {
  return desired
    .serversOfAddress(address)
    .some((key) => isMade(key) && desired.virtualServer(key) !== undefined);
}

/**
 * Removals of bound addresses of which the last virtual server is gone and cannot be made again: `notMade` was refused, or
 * waits. They are bound again with the first virtual server that is made.
 */
export function unservedAddresses(
  notMade: Iterable<Change>,
  { cached, desired }: { readonly cached: CachedState; readonly desired: Wanted },
): readonly Change[] {
  const isMade = (key: string): boolean => cached.virtualServers.has(key);
  const addresses = new Set<IpAddress>();
  for (const change of notMade) {
    if (change.kind !== "virtual-server-create") continue;
    const { address } = change.after;
    // That of a node port is the node's own, and not on kube-ipvs0.
    if (cached.addresses.has(address) && !isServedBy(address, desired, isMade)) {
      addresses.add(address);
    }
  }
  return [...addresses].map((address) => ({
    kind: "address-remove",
    address,
    reason: "unserved",
  }));
}

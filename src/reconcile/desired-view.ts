/** What is wanted, less what must not be touched. Pure. */
import type { IpAddress } from "../base/ip.ts";
import type { DesiredState } from "../plan/desired-state.ts";
import { addressEntry, addressPortEntry, type SetEntry } from "../state/set-entry.ts";

/** The part of the desired state that the reconciler works on. */
export type DesiredView = Pick<
  DesiredState,
  "virtualServer" | "virtualServerKeys" | "hasEntry" | "entries" | "hasAddress" | "addresses"
>;

/**
 * Leaves out virtual servers that others have at the moment, with what would mark them as ours: their
 * entries by address and port, and their address unless another virtual server of ours needs it. A node
 * port's entry stays, since it stands for all addresses of the node.
 */
export function withoutServers(desired: DesiredView, keys: ReadonlySet<string>): DesiredView {
  if (keys.size === 0) return desired;
  const { entries, addresses } = hiddenBy(desired, keys);
  return {
    virtualServer: (key) => (keys.has(key) ? undefined : desired.virtualServer(key)),
    *virtualServerKeys() {
      for (const key of desired.virtualServerKeys()) if (!keys.has(key)) yield key;
    },
    hasEntry: (setName, entry) => !entries.has(entry) && desired.hasEntry(setName, entry),
    *entries(setName) {
      for (const entry of desired.entries(setName)) if (!entries.has(entry)) yield entry;
    },
    hasAddress: (address) => !addresses.has(address) && desired.hasAddress(address),
    *addresses() {
      for (const address of desired.addresses()) if (!addresses.has(address)) yield address;
    },
  };
}

function hiddenBy(
  desired: DesiredView,
  keys: ReadonlySet<string>,
): { readonly entries: ReadonlySet<SetEntry>; readonly addresses: ReadonlySet<IpAddress> } {
  const entries = new Set<SetEntry>();
  const addresses = new Set<IpAddress>();
  for (const key of keys) {
    const server = desired.virtualServer(key)?.virtualServer;
    if (server === undefined) continue;
    addresses.add(server.address);
    entries.add(addressPortEntry(server.address, server.protocol, server.port));
  }
  for (const key of desired.virtualServerKeys()) {
    const server = desired.virtualServer(key)?.virtualServer;
    if (server !== undefined && !keys.has(key)) addresses.delete(server.address);
  }
  for (const address of addresses) entries.add(addressEntry(address));
  return { entries, addresses };
}

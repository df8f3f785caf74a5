/** What is wanted, less what must not be touched. Pure. */
import { familyOf, type IpAddress } from "../base/ip.ts";
import type { DesiredState, DirtyKeys } from "../plan/desired-state.ts";
import { setFor } from "../plan/sets.ts";
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

/**
 * Adds to what a sync looks at: the addresses of these virtual servers may be needed, or not be needed any
 * more, by a change of others.
 */
export function withAddressesOf(
  dirty: DirtyKeys,
  desired: DesiredView,
  keys: ReadonlySet<string>,
): DirtyKeys {
  const addresses = new Set(dirty.addresses);
  const setEntries = new Map(dirty.setEntries);
  for (const key of keys) {
    const address = desired.virtualServer(key)?.virtualServer.address;
    if (address === undefined) continue;
    const { name } = setFor("ipvsIps", familyOf(address));
    addresses.add(address);
    setEntries.set(name, new Set(setEntries.get(name)).add(addressEntry(address)));
  }
  return { ...dirty, addresses, setEntries };
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

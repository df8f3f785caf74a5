/** What is wanted, without what a third party has. Does no I/O. */
import { familyOf, type IpAddress } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { setFor, setRoles } from "../../plan/sets.ts";
import { addressEntry, addressPortEntry, type SetEntry } from "../../state/set-entry.ts";
import type { Scope } from "../scope.ts";
import type { Ownership, OwnershipView } from "./ownership.ts";

/** Finds out what a third party has of what is wanted, leaves that out, and adds to the scope what depends on it. */
export function withoutForeign(
  view: OwnershipView,
  ownership: Ownership,
  scope: Scope,
): DesiredView {
  const { desired } = view;
  const ended = ownership.updateConflicts(view, scope.virtualServers);
  includeConflicts(scope, desired, ended);
  // Another virtual server may need the address of one that is not ours, or need it no more.
  includeConflicts(scope, desired, ownership.conflicts);
  return withoutConflicts(desired, ownership.conflicts);
}

/**
 * Leaves out virtual servers that a third party has at the moment, with what would mark them as ours: their entries by
 * address and port, and their address unless another virtual server of ours needs it. A node port's entry stays, since
 * it stands for all addresses of the node.
 */
function withoutConflicts(desired: DesiredView, conflicts: ReadonlySet<string>): DesiredView {
  if (conflicts.size === 0) return desired;
  const { entries, addresses } = hiddenBy(desired, conflicts);
  return {
    virtualServer: (key) => (conflicts.has(key) ? undefined : desired.virtualServer(key)),
    *virtualServerKeys() {
      for (const key of desired.virtualServerKeys()) if (!conflicts.has(key)) yield key;
    },
    hasEntry: (setName, entry) => !entries.has(entry) && desired.hasEntry(setName, entry),
    *entries(setName) {
      for (const entry of desired.entries(setName)) if (!entries.has(entry)) yield entry;
    },
    hasAddress: (address) => !addresses.has(address) && desired.hasAddress(address),
    *addresses() {
      for (const address of desired.addresses()) if (!addresses.has(address)) yield address;
    },
    serversOfAddress: (address) => desired.serversOfAddress(address),
    servicesOfServer: (key) => desired.servicesOfServer(key),
    servicesOfEntry: (setName, entry) => desired.servicesOfEntry(setName, entry),
    servicesOfAddress: (address) => desired.servicesOfAddress(address),
  };
}

/**
 * Adds to a scope what depends on whether these virtual servers are ours: themselves, their entries, and their
 * addresses, which other virtual servers may need, or need no more.
 */
function includeConflicts(scope: Scope, desired: DesiredView, keys: Iterable<string>): void {
  for (const key of keys) {
    scope.includeServer(key);
    const server = desired.virtualServer(key)?.virtualServer;
    if (server === undefined) continue;
    const { address, protocol, port } = server;
    const family = familyOf(address);
    const entry = addressPortEntry(address, protocol, port);
    // Not only those that mark a virtual server as ours: the firewall of a load balancer names it as well.
    for (const role of setRoles) {
      const { name, type } = setFor(role, family);
      if (type === "hash:ip,port") scope.includeEntry(name, entry);
    }
    scope.includeAddress(address);
    scope.includeEntry(setFor("ipvsIps", family).name, addressEntry(address));
  }
}

function hiddenBy(
  desired: DesiredView,
  conflicts: ReadonlySet<string>,
): { readonly entries: ReadonlySet<SetEntry>; readonly addresses: ReadonlySet<IpAddress> } {
  const entries = new Set<SetEntry>();
  const addresses = new Set<IpAddress>();
  for (const key of conflicts) {
    const server = desired.virtualServer(key)?.virtualServer;
    if (server === undefined) continue;
    const { address, protocol, port } = server;
    entries.add(addressPortEntry(address, protocol, port));
    const isNeeded = desired.serversOfAddress(address).some((other) => !conflicts.has(other));
    if (isNeeded) continue;
    addresses.add(address);
    entries.add(addressEntry(address));
  }
  return { entries, addresses };
}

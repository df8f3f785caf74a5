/** The desired state without third-party virtual servers. Does no I/O. */
import { familyOf, type IpAddress } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { setFor, setRoles } from "../../plan/sets.ts";
import { addressEntry, addressPortEntry, type SetEntry } from "../../state/set-entry.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { Scope } from "../scope.ts";
import type { Ownership, OwnershipView } from "./ownership.ts";

/**
 * Finds desired virtual servers that a third party owns, removes them from the desired state, and adds everything
 * that depends on them to the scope.
 */
export function withoutForeign(
  view: OwnershipView,
  ownership: Ownership,
  scope: Scope,
): DesiredView {
  const { desired } = view;
  const ended = ownership.updateConflicts(view, scope.virtualServers);
  includeConflicts(scope, desired, ended);
  // Other virtual servers may need the address of a foreign one, or no longer need it.
  includeConflicts(scope, desired, ownership.conflicts);
  return withoutConflicts(desired, ownership.conflicts);
}

/**
 * The desired state without virtual servers that a third party currently owns, and without everything that would
 * identify them as ours: their entries by address and port, and their address unless one of our virtual servers needs
 * it. A node port's entry remains, because it applies to all node addresses.
 */
function withoutConflicts(desired: DesiredView, conflicts: ReadonlySet<ServerKey>): DesiredView {
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
    ranges: (family) => desired.ranges(family),
    tunnels: (family) => desired.tunnels(family),
  };
}

/**
 * Adds to a scope everything that depends on who owns these virtual servers: the virtual servers, their entries and
 * their addresses.
 */
function includeConflicts(scope: Scope, desired: DesiredView, keys: Iterable<ServerKey>): void {
  for (const key of keys) {
    scope.includeServer(key);
    const server = desired.virtualServer(key)?.virtualServer;
    if (server === undefined) continue;
    const { address, protocol, port } = server;
    const family = familyOf(address);
    const entry = addressPortEntry(address, protocol, port);
    // Include sets that do not identify virtual servers as ours, because load-balancer firewall sets also contain
    // entries for these virtual servers.
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
  conflicts: ReadonlySet<ServerKey>,
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

/** What may be removed. Pure filters on what was observed. */
import { type Cidr, cidrContains, familyOf, type IpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import { type SetRole, setFor } from "../plan/sets.ts";
import { addressPortEntry, portEntry } from "../state/set-entry.ts";
import type { VirtualServerId } from "../state/virtual-server.ts";
import type { KnownState } from "./known-state.ts";

export interface OwnershipPolicy {
  /** `keep` leaves virtual servers of others alone; `delete` removes them, as kube-proxy does. */
  readonly foreignVirtualServers: "keep" | "delete";
  /** Virtual servers in these networks are never removed. */
  readonly excludeCidrs: readonly Cidr[];
}

const addressSets: readonly SetRole[] = [
  "clusterIp",
  "externalIp",
  "externalIpLocal",
  "loadBalancer",
];

const portSets: Readonly<Record<Protocol, SetRole>> = {
  TCP: "nodePortTcp",
  UDP: "nodePortUdp",
  SCTP: "nodePortSctp",
};

/**
 * Says whether a virtual server that nobody wants may be removed. Ownership is read from the kernel
 * itself, so it survives restarts and the take-over from kube-proxy: ours is what one of our sets names,
 * by address and port, or by a node port on a node address. Hence set entries are written before their
 * virtual server and removed after it.
 */
export function mayRemove(
  id: VirtualServerId,
  known: KnownState,
  nodeAddresses: ReadonlySet<IpAddress>,
  policy: OwnershipPolicy,
): boolean {
  if (policy.excludeCidrs.some((cidr) => cidrContains(cidr, id.address))) return false;
  return policy.foreignVirtualServers === "delete" || isOurs(id, known, nodeAddresses);
}

/** See {@link mayRemove}. */
export function isOurs(
  { address, protocol, port }: VirtualServerId,
  known: KnownState,
  nodeAddresses: ReadonlySet<IpAddress>,
): boolean {
  const family = familyOf(address);
  const entry = addressPortEntry(address, protocol, port);
  if (addressSets.some((role) => known.hasEntry(setFor(role, family).name, entry))) return true;
  if (!nodeAddresses.has(address)) return false;
  const member = protocol === "SCTP" ? entry : portEntry(port);
  return known.hasEntry(setFor(portSets[protocol], family).name, member);
}

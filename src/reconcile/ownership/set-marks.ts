/** The set entries that identify a virtual server as ours. Pure. */
import { familyOf } from "../../base/ip.ts";
import type { Protocol } from "../../base/protocol.ts";
import { type SetRole, setFor } from "../../plan/sets.ts";
import { addressPortEntry, portEntry, type SetEntry } from "../../state/set-entry.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

/** Sets that identify a virtual server by address, protocol and port. */
export const addressSetRoles: readonly SetRole[] = [
  "clusterIp",
  "externalIp",
  "externalIpLocal",
  "loadBalancer",
];

/** Sets that contain the port of a virtual server on the node's addresses. */
export const nodePortSetRoles: Readonly<Record<Protocol, SetRole>> = {
  TCP: "nodePortTcp",
  UDP: "nodePortUdp",
  SCTP: "nodePortSctp",
};

/** Looks up set members in the cache or in the desired state. */
export interface Members {
  hasEntry(setName: string, entry: SetEntry): boolean;
}

export function isNamedByAddress(id: VirtualServerId, members: Members): boolean {
  if (id.protocol === "FWM") return false;
  const family = familyOf(id.address);
  const entry = addressPortEntry(id.address, id.protocol, id.port);
  return addressSetRoles.some((role) => members.hasEntry(setFor(role, family).name, entry));
}

export function isNamedByPort(id: VirtualServerId, members: Members): boolean {
  const { address, protocol, port } = id;
  if (protocol === "FWM") return false;
  const entry = protocol === "SCTP" ? addressPortEntry(address, protocol, port) : portEntry(port);
  return members.hasEntry(setFor(nodePortSetRoles[protocol], familyOf(address)).name, entry);
}

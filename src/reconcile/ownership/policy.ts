import { type Cidr, cidrContains } from "../../base/ip.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

export interface OwnershipPolicy {
  /** `keep` leaves foreign virtual servers unchanged; `delete` removes them, as kube-proxy does. */
  readonly foreignVirtualServers: "keep" | "delete";
  /** Virtual servers in these networks are never removed. */
  readonly excludeCIDRs: readonly Cidr[];
}

/** Whether the virtual server is in an excluded network, where nothing is ever removed. */
export function isExcluded(id: VirtualServerId, { excludeCIDRs }: OwnershipPolicy): boolean {
  return excludeCIDRs.some((cidr) => cidrContains(cidr, id.address));
}

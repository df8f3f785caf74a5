import { type Cidr, cidrContains } from "../../base/ip.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";

export interface OwnershipPolicy {
  /** `keep` leaves third-party virtual servers alone; `delete` removes them, as kube-proxy does. */
  readonly foreignVirtualServers: "keep" | "delete";
  /** Virtual servers in these networks are never removed. */
  readonly excludeCidrs: readonly Cidr[];
}

/** Nothing in an excluded network is removed, whoever made it. */
export function isExcluded(id: VirtualServerId, { excludeCidrs }: OwnershipPolicy): boolean {
  return excludeCidrs.some((cidr) => cidrContains(cidr, id.address));
}

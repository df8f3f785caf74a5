/** The node's addresses, and those it cannot do without: what planning must know of its network. */
import type { EndpointSliceRecord } from "../api/objects.ts";
import type { IpAddress } from "../base/ip.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { ReservedReason } from "../plan/options.ts";
import { observeAddresses } from "../reconcile/observe.ts";

export interface NodeNetwork {
  /** On kube-ipvs0, each once; absent where there is no such link. */
  readonly bound: readonly IpAddress[] | undefined;
  /** On all other links. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /** Of others, which must never be bound to kube-ipvs0: the node would talk to itself in their place. */
  readonly reserved: ReadonlyMap<IpAddress, ReservedReason>;
}

export const emptyNetwork: NodeNetwork = {
  bound: undefined,
  ofNode: new Set(),
  reserved: new Map(),
};

/** The Service through which pods reach the API servers. */
export const apiServerService = "default/kubernetes";

/** Reads links, addresses and routes. Throws what the kernel says. */
export async function readNodeNetwork(
  kernel: Kernel,
  apiServers: Iterable<IpAddress>,
): Promise<NodeNetwork> {
  const { bound, ofNode, broadcasts } = await observeAddresses(kernel);
  const reserved = new Map<IpAddress, ReservedReason>();
  for (const address of broadcasts) reserved.set(address, "broadcast-address");
  for (const address of apiServers) reserved.set(address, "api-server-address");
  for (const address of await kernel.link.listGateways()) reserved.set(address, "gateway-address");
  return { bound, ofNode, reserved };
}

/** Whether planning sees no difference. */
export function sameNetwork(one: NodeNetwork, other: NodeNetwork): boolean {
  return networkText(one) === networkText(other);
}

function networkText({ ofNode, reserved }: NodeNetwork): string {
  return JSON.stringify([[...ofNode].sort(), [...reserved].sort()]);
}

/** The API servers, as the endpoints of their Service tell. */
export function endpointAddresses(slices: Iterable<EndpointSliceRecord>): readonly IpAddress[] {
  return [...slices].flatMap(({ endpoints }) => endpoints.map(({ address }) => address));
}

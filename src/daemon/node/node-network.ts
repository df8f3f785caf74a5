/** The node's addresses, and those it cannot do without: what planning must know of its network. */
import type { EndpointSliceRecord } from "../../api/objects.ts";
import type { ServerEndpoint } from "../../api/source.ts";
import { familyOf, type IpAddress } from "../../base/ip.ts";
import { Networks } from "../../base/networks.ts";
import type { DummyLink, Sysctl } from "../../kernel/kernel.ts";
import type { ReservedReason } from "../../plan/options.ts";
import { readAddresses } from "../../reconcile/observed/read-addresses.ts";

export interface NodeNetwork {
  /** On kube-ipvs0, each once; absent where there is no such link. */
  readonly bound: readonly IpAddress[] | undefined;
  /** On all other links. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /** Of others, which must never be bound to kube-ipvs0: the node would talk to itself in their place. */
  readonly reserved: ReadonlyMap<IpAddress, ReservedReason>;
  /** In the main routing table, and those that vanished without another one in their place. */
  readonly gateways: ReadonlySet<IpAddress>;
  /** No external or load-balancer IP in them is served. */
  readonly podNetworks: Networks;
  /** Addresses and ports of API servers, as {@link serverKey} writes them. */
  readonly apiServers: ReadonlySet<string>;
  /** The kernel takes no address of this family on kube-ipvs0. */
  readonly isIpv6Disabled: boolean;
}

export const emptyNetwork: NodeNetwork = {
  bound: undefined,
  ofNode: new Set(),
  reserved: new Map(),
  gateways: new Set(),
  podNetworks: new Networks(),
  apiServers: new Set(),
  isIpv6Disabled: false,
};

/** The Service through which pods reach the API servers. */
export const apiServerService = "default/kubernetes";

/** Reads the link, addresses, gateways and sysctls of the node. */
export interface NetworkReader {
  readonly link: Pick<DummyLink, "name" | "find" | "listAddresses" | "listGateways">;
  readonly sysctl: Pick<Sysctl, "read">;
}

/** Other hosts that the node does not know from its kernel. */
export interface KnownOthers {
  readonly apiServers: Iterable<ServerEndpoint>;
  /** Addresses of other Nodes that Services name. */
  readonly nodeAddresses?: Iterable<IpAddress> | undefined;
  /** The pod CIDRs of all Nodes. Undefined if none are known. */
  readonly podNetworks?: Networks | undefined;
}

/**
 * Reads links, addresses and routes. It calls `others` afterwards: Services may have arrived while it read.
 * `previous`: what was read last. Throws what the kernel says.
 */
export async function readNodeNetwork(
  kernel: NetworkReader,
  others: () => KnownOthers,
  previous: NodeNetwork = emptyNetwork,
): Promise<NodeNetwork> {
  const { bound, ofNode, broadcasts } = await readAddresses(kernel);
  const gateways = keptGateways(await kernel.link.listGateways(), previous.gateways);
  const { apiServers, nodeAddresses = [], podNetworks = emptyNetwork.podNetworks } = others();
  const servers = [...apiServers];
  const reserved = new Map<IpAddress, ReservedReason>();
  for (const address of broadcasts) reserved.set(address, "broadcast-address");
  for (const { address } of servers) reserved.set(address, "api-server-address");
  for (const address of gateways) reserved.set(address, "gateway-address");
  // Last: it alone keeps an address from being served at all, and a gateway or an API server may be a Node as well.
  for (const address of nodeAddresses) reserved.set(address, "other-node-address");
  return {
    bound,
    ofNode,
    reserved,
    gateways,
    podNetworks,
    apiServers: new Set(servers.map(serverKey)),
    isIpv6Disabled: isIpv6Disabled(kernel),
  };
}

/**
 * A link that is down for a moment takes its routes along. A gateway that was bound to kube-ipvs0 meanwhile would stay
 * out of reach when they are back, so that it is free only when another one of its family came. Pure.
 */
export function keptGateways(
  listed: readonly IpAddress[],
  previous: ReadonlySet<IpAddress>,
): ReadonlySet<IpAddress> {
  const changed = new Set(listed.filter((address) => !previous.has(address)).map(familyOf));
  const kept = [...previous].filter((address) => !changed.has(familyOf(address)));
  return new Set([...listed, ...kept]);
}

/** The link's own setting counts once there is one; until then that of links to come. */
function isIpv6Disabled({ sysctl, link }: NetworkReader): boolean {
  const read = (name: string): string | undefined =>
    sysctl.read(`net/ipv6/conf/${name}/disable_ipv6`);
  return (read(link.name) ?? read("default")) === "1";
}

/** `10.0.0.1 6443` */
function serverKey({ address, port }: ServerEndpoint): string {
  return `${address} ${port}`;
}

/** More than any control plane has. */
const maxServers = 256;

/**
 * All servers that `read` ever reported. A Service that takes the one we are connected to keeps the news of its own end
 * away: a name that is looked up differently today frees nothing.
 */
export function rememberServers(
  read: () => readonly ServerEndpoint[],
): () => readonly ServerEndpoint[] {
  const known = new Map<string, ServerEndpoint>();
  return () => {
    for (const server of read()) {
      if (known.size < maxServers) known.set(serverKey(server), server);
    }
    return [...known.values()];
  };
}

/** Whether planning sees no difference. */
export function sameNetwork(one: NodeNetwork, other: NodeNetwork): boolean {
  return networkText(one) === networkText(other);
}

function networkText(network: NodeNetwork): string {
  const { ofNode, reserved, apiServers, podNetworks, isIpv6Disabled } = network;
  const parts = [ofNode, reserved, apiServers].map((part) => [...part].sort());
  return JSON.stringify([...parts, podNetworks.text, isIpv6Disabled]);
}

/** The API servers, as the endpoints of their Service are. */
export function sliceEndpoints(slices: Iterable<EndpointSliceRecord>): readonly ServerEndpoint[] {
  return [...slices].flatMap(({ endpoints, ports }) =>
    endpoints.flatMap(({ address }) => ports.map(({ port }) => ({ address, port }))),
  );
}

/**
 * Facts about the node's network that planning needs: its own addresses, and those of hosts that it must be able to
 * reach.
 */
import type { EndpointSliceRecord } from "../../api/objects.ts";
import type { ServerEndpoint } from "../../api/source.ts";
import { familyOf, type HostPort, hostPort, type IpAddress } from "../../base/ip.ts";
import { Networks } from "../../base/networks.ts";
import type { DummyLink, Sysctl, TunnelLinks } from "../../kernel/kernel.ts";
import type { ReservedReason } from "../../plan/options.ts";
import { readAddresses } from "../../reconcile/observed/read-addresses.ts";

export interface NodeNetwork {
  /** Addresses on kube-ipvs0, without duplicates. Undefined if the link does not exist. */
  readonly bound: readonly IpAddress[] | undefined;
  /** Addresses on all other links. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /**
   * Addresses of other hosts. They must never be bound to kube-ipvs0, because the node could then no longer reach those
   * hosts.
   */
  readonly reserved: ReadonlyMap<IpAddress, ReservedReason>;
  /** Gateways in the main routing table, and earlier gateways that no new gateway has replaced. */
  readonly gateways: ReadonlySet<IpAddress>;
  /** Pod CIDRs. External and load-balancer IPs inside them are not served. */
  readonly podNetworks: Networks;
  readonly apiServers: ReadonlySet<HostPort>;
  /** If true, the kernel rejects IPv6 addresses on kube-ipvs0. */
  readonly isIpv6Disabled: boolean;
  /** Other software's links that receive all tunneled packets. Only read if tunnel forwarding is on. */
  readonly otherTunnels?: readonly string[];
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

/** Reads the node's link, addresses, gateways and sysctls. */
export interface NetworkReader {
  readonly link: Pick<DummyLink, "name" | "find" | "listAddresses" | "listGateways">;
  readonly sysctl: Pick<Sysctl, "read">;
  readonly tunnels?: Pick<TunnelLinks, "listOthers">;
}

/** Addresses of other hosts that cannot be read from this node's kernel. */
export interface KnownOthers {
  readonly apiServers: Iterable<ServerEndpoint>;
  /** Addresses of other Nodes that Services name as external or load-balancer IPs. */
  readonly nodeAddresses?: Iterable<IpAddress> | undefined;
  /** The pod CIDRs of all Nodes. Undefined if none are known. */
  readonly podNetworks?: Networks | undefined;
}

/**
 * Reads links, addresses and routes. Calls `others` last, so that it includes Services that arrive during the reads.
 * `previous` is the result of the previous read. Rejects with the kernel's error.
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
  // This reason is set last, so that it also applies to a gateway or API server that is a Node. It is the only reason
  // for which an address is not served at all.
  for (const address of nodeAddresses) reserved.set(address, "other-node-address");
  return {
    bound,
    ofNode,
    reserved,
    gateways,
    podNetworks,
    apiServers: new Set(servers.map(({ address, port }) => hostPort(address, port))),
    isIpv6Disabled: isIpv6Disabled(kernel),
  };
}

/**
 * Returns the listed gateways and the previous ones to keep. When a link goes down briefly, its routes disappear. If a
 * former gateway were then bound to kube-ipvs0, it would be unreachable after the routes return. Therefore a gateway is
 * forgotten only when a new gateway in its family appears. Pure.
 */
export function keptGateways(
  listed: readonly IpAddress[],
  previous: ReadonlySet<IpAddress>,
): ReadonlySet<IpAddress> {
  const changed = new Set(listed.filter((address) => !previous.has(address)).map(familyOf));
  const kept = [...previous].filter((address) => !changed.has(familyOf(address)));
  return new Set([...listed, ...kept]);
}

/** Uses the setting of kube-ipvs0 if the link exists, else the default setting for new links. */
function isIpv6Disabled({ sysctl, link }: NetworkReader): boolean {
  const read = (name: string): string | undefined =>
    sysctl.read(`net/ipv6/conf/${name}/disable_ipv6`);
  return (read(link.name) ?? read("default")) === "1";
}

/** Maximum number of servers to remember. No control plane has this many. */
const maxServers = 256;

/**
 * Returns all servers that `read` has ever reported. A server remains reserved even after its host name resolves to a
 * different address. Otherwise a Service could take over the address of the API server to which kube-ipvs is connected,
 * and kube-ipvs would never learn that this Service was deleted.
 */
export function rememberServers(
  read: () => readonly ServerEndpoint[],
): () => readonly ServerEndpoint[] {
  const known = new Map<HostPort, ServerEndpoint>();
  return () => {
    for (const server of read()) {
      if (known.size < maxServers) known.set(hostPort(server.address, server.port), server);
    }
    return [...known.values()];
  };
}

/** Whether both networks are equivalent for planning. */
export function sameNetwork(one: NodeNetwork, other: NodeNetwork): boolean {
  return networkText(one) === networkText(other);
}

function networkText(network: NodeNetwork): string {
  const { ofNode, reserved, apiServers, podNetworks, isIpv6Disabled, otherTunnels } = network;
  const parts = [ofNode, reserved, apiServers].map((part) => [...part].sort());
  return JSON.stringify([...parts, podNetworks.text, isIpv6Disabled, otherTunnels]);
}

/** The addresses and ports of the API servers, taken from the EndpointSlices of their Service. */
export function sliceEndpoints(slices: Iterable<EndpointSliceRecord>): readonly ServerEndpoint[] {
  return [...slices].flatMap(({ endpoints, ports }) =>
    endpoints.flatMap(({ address }) => ports.map(({ port }) => ({ address, port }))),
  );
}

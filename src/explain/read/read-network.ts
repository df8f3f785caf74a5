/** Reads routes, listening sockets and sysctls, which affect packets but are not planned. */
import { cidrContains, familyOf, type IpAddress, type IpFamily, parseCidr } from "../../base/ip.ts";
import type { NodeAddress, Sysctl } from "../../kernel/kernel.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { Route } from "../../kernel/route.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { type NodeNetwork, routeKey } from "../packet/node-state.ts";

export interface NetworkQuery {
  readonly family: IpFamily;
  /** Addresses of this node on links other than kube-ipvs0. */
  readonly addresses: readonly NodeAddress[];
  /** Addresses whose routes are read: clients, destinations and endpoints. */
  readonly peers: Iterable<IpAddress>;
  /** If given, reads whether the kernel routes the peers' replies to this client. */
  readonly client?: IpAddress | undefined;
  /** The client's input interface, as given by the operator. */
  readonly inLink?: string | undefined;
  readonly bridgesOfPorts?: ReadonlyMap<string, string>;
  /** A client whose packets may arrive on any link. */
  readonly stranger?: IpAddress | undefined;
}

export async function readNetwork(
  readers: Pick<KernelReaders, "routes" | "links" | "sockets"> & {
    readonly sysctl: Pick<Sysctl, "read">;
  },
  { family, addresses, peers, client, inLink, bridgesOfPorts, stranger }: NetworkQuery,
): Promise<NodeNetwork> {
  const { sysctl, sockets } = readers;
  if (inLink !== undefined && sysctl.read(reversePath(inLink)) === undefined)
    throw new Error(`--in: there is no interface ${inLink} on this node; ip link lists them`);
  const bridgeCalls = family === "IPv4" ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables";
  const isAsked = client !== undefined && familyOf(client) === family;
  const routes = await readRoutes(readers, peers, isAsked ? client : undefined);
  const back = isAsked ? routes.routes.get(client) : undefined;
  /** Whether a peer is in a network of the link. */
  const isBeside = (peer: IpAddress, link: Route): boolean =>
    addresses.some(({ linkIndex, address, prefixLength }) => {
      const network = parseCidr(`${address}/${prefixLength}`);
      return linkIndex === link.linkIndex && network !== undefined && cidrContains(network, peer);
    });
  const conntrackSize = (name: string): number =>
    Number(sysctl.read(`net/netfilter/nf_conntrack_${name}`));
  const isAnyLink = stranger !== undefined && family === "IPv4";
  const toStranger = isAnyLink ? routes.routes.get(stranger) : undefined;
  const mayArrive = isAnyLink && toStranger !== undefined && !isBeside(stranger, toStranger);
  const links = mayArrive ? await readers.links.listLinks() : [];
  const strictLinks = links.flatMap(({ index, name, kind = "", isUp, isLoopback }) =>
    isUp &&
    !isLoopback &&
    !innerKinds.test(kind) &&
    name !== toStranger?.link &&
    addresses.some(
      ({ linkIndex, address }) => linkIndex === index && familyOf(address) === family,
    ) &&
    isStrict(sysctl, name)
      ? [name]
      : [],
  );
  return {
    addresses: new Set(addresses.map(({ address }) => address)),
    ...(bridgesOfPorts === undefined ? {} : { bridgesOfPorts }),
    bridgePeers: new Set(
      [...peers].filter((peer) => back?.isBridge === true && isBeside(peer, back)),
    ),
    ...routes,
    listeners: new Set(sockets.listListening().map(virtualServerKey)),
    isIpvsTracked: sysctl.read("net/ipv4/vs/conntrack") !== "0",
    isConntrackFull: conntrackSize("count") >= conntrackSize("max"),
    isForwarding: sysctl.read(forwarding[family]) !== "0",
    isLoopbackRouted: sysctl.read("net/ipv4/conf/all/route_localnet") === "1",
    ...(inLink !== undefined && family === "IPv4" && isStrict(sysctl, inLink)
      ? { strictLink: inLink }
      : {}),
    isBridgeFiltered: sysctl.read(`net/bridge/${bridgeCalls}`) === "1",
    strictLinks: new Map(stranger === undefined ? [] : [[stranger, strictLinks]]),
    markRules: await readers.links.listMarkRules(family),
  };
}

/** Kinds of links on which packets from clients outside the cluster's networks do not arrive. */
const innerKinds = /^(?:bridge|dummy|vxlan|geneve|ipip|sit|gre|ip6tnl|wireguard)$/;

/** The kernel applies the larger of the two settings; 2 is the loose check. IPv6 has no such setting. */
export function isStrict(sysctl: Pick<Sysctl, "read">, link: string): boolean {
  const settings = ["all", link].map((name) => sysctl.read(reversePath(name)));
  return Math.max(...settings.map(Number).filter(Number.isInteger)) === 1;
}

function reversePath(link: string): string {
  return `net/ipv4/conf/${link}/rp_filter`;
}

const forwarding: Readonly<Record<IpFamily, string>> = {
  IPv4: "net/ipv4/ip_forward",
  IPv6: "net/ipv6/conf/all/forwarding",
};

/** Reads the routes to the peers and, if a client is given, whether the peers' replies are routed to it. */
async function readRoutes(
  { routes }: Pick<KernelReaders, "routes">,
  peers: Iterable<IpAddress>,
  client: IpAddress | undefined,
): Promise<Pick<NodeNetwork, "unrouted"> & { readonly routes: ReadonlyMap<IpAddress, Route> }> {
  const found = new Map<IpAddress, Route>();
  const unrouted = new Set<string>();
  for (const address of new Set(peers)) {
    const route = await routes.find(address);
    if (route === undefined) unrouted.add(routeKey(address));
    else if (!route.isLocal) found.set(address, route);
  }
  if (client === undefined) return { routes: found, unrouted };
  for (const [source, { linkIndex }] of found) {
    if (source === client) continue;
    const answer = await routes.find(client, { source, linkIndex });
    if (answer === undefined) unrouted.add(routeKey(client, source));
  }
  return { routes: found, unrouted };
}

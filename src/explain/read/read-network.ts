/** Reads routes, listening sockets and sysctls that affect packets, but are not planned. */
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Sysctl } from "../../kernel/kernel.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import { type KnownRoute, listenerKey, type NodeNetwork } from "../packet/node-state.ts";

export interface NetworkQuery {
  readonly family: IpFamily;
  /** Addresses of this node on links other than kube-ipvs0. */
  readonly addresses: ReadonlySet<IpAddress>;
  /** Addresses whose routes are read: clients, destinations and endpoints. */
  readonly peers: Iterable<IpAddress>;
  /** The interface through which the operator says that packets of a client come in. */
  readonly inLink?: string | undefined;
}

export async function readNetwork(
  readers: Pick<KernelReaders, "routes" | "sockets"> & { readonly sysctl: Pick<Sysctl, "read"> },
  { family, addresses, peers, inLink }: NetworkQuery,
): Promise<NodeNetwork> {
  const { sysctl, sockets } = readers;
  if (inLink !== undefined && sysctl.read(reversePath(inLink)) === undefined)
    throw new Error(`--in: there is no interface ${inLink} on this node; ip link shows all`);
  const bridgeCalls = family === "IPv4" ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables";
  return {
    addresses,
    routes: await readRoutes(readers, peers),
    listeners: new Set(sockets.listListening().map(listenerKey)),
    isIpvsTracked: sysctl.read("net/ipv4/vs/conntrack") !== "0",
    isForwarding: sysctl.read(forwarding[family]) !== "0",
    isLoopbackRouted: sysctl.read("net/ipv4/conf/all/route_localnet") === "1",
    ...(inLink !== undefined && family === "IPv4" && isStrict(sysctl, inLink)
      ? { strictLink: inLink }
      : {}),
    isBridgeFiltered: sysctl.read(`net/bridge/${bridgeCalls}`) === "1",
  };
}

/** The larger of the two settings applies; 2 is the loose check. IPv6 has no such setting. */
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

async function readRoutes(
  { routes }: Pick<KernelReaders, "routes">,
  peers: Iterable<IpAddress>,
): Promise<ReadonlyMap<IpAddress, KnownRoute>> {
  const found = new Map<IpAddress, KnownRoute>();
  for (const address of new Set(peers)) {
    const route = await routes.find(address);
    if (route !== undefined && !route.isLocal) found.set(address, route);
  }
  return found;
}

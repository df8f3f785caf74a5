/** Reads servers, rules and addresses from the kernel. Changes nothing. */
import { readdirSync, readFileSync } from "node:fs";
import { hostPort, type IpFamily, ipFamilies, parseIpAddress } from "../../base/ip.ts";
import { outside } from "../../explain/origins.ts";
import { unansweredIn } from "../../explain/read/read-connections.ts";
import { isStrict } from "../../explain/read/read-network.ts";
import type { BackendSurvey } from "../../kernel/iptables/backend.ts";
import { listConnections } from "../../kernel/ipvs/connections.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import { setFor } from "../../plan/sets.ts";
import { isTunnel as isTunneledTo } from "../../state/real-server.ts";
import { tunnelLinks } from "../../state/tunnel-link.ts";
import { tunnelHeaderBytes } from "../checks/addresses.ts";
import type {
  AddressFacts,
  BackendFact,
  ForwardingFacts,
  IpvsFigures,
  ReversePathFacts,
  TunnelFact,
} from "../node.ts";
import { isIpvsLoaded } from "./modules.ts";

/** Reads figures about IPVS. Throws if IPVS is not loaded, because a request would load it. */
export async function readIpvs({ ipvs }: KernelReaders): Promise<IpvsFigures> {
  if (!isIpvsLoaded()) throw new Error("IPVS is not loaded");
  const servers = await ipvs.listVirtualServers();
  const real = (await ipvs.listRealServers(servers)).flat();
  let connections = 0;
  for (const { activeConnections, inactiveConnections } of real) {
    connections += activeConnections + inactiveConnections;
  }
  return { virtualServers: servers.length, realServers: real.length, connections };
}

export function readConnTabBits({ modules }: KernelReaders): number {
  const bits = Number(modules.readParameter("ip_vs", "conn_tab_bits") ?? Number.NaN);
  if (Number.isInteger(bits)) return bits;
  throw new Error("the module parameter conn_tab_bits of ip_vs cannot be read");
}

export async function readBackends({
  surveyBackends,
}: KernelReaders): Promise<Readonly<Record<"legacy" | "nft", BackendFact>>> {
  const { legacy, nft } = await surveyBackends();
  return { legacy: backendFact(legacy), nft: backendFact(nft) };
}

function backendFact(survey: BackendSurvey): BackendFact {
  const { isInstalled, ruleCount, leftovers, hasPortals = false } = survey;
  const chains = [...(leftovers?.values() ?? [])].flat();
  return { isInstalled, ruleCount, leftoverChainCount: chains.length, hasPortals };
}

/** Returns the tables of kube-proxy's nftables mode, as nft prints them. */
export async function readNftTables({ nftTables }: KernelReaders): Promise<readonly string[]> {
  const found: string[] = [];
  for (const family of ipFamilies) {
    const word = family === "IPv4" ? "ip" : "ip6";
    if (await nftTables.has(family, "kube-proxy")) found.push(`${word} kube-proxy`);
  }
  return found;
}

export async function readAddresses({ link, links, ipSets }: KernelReaders): Promise<AddressFacts> {
  const ours = await link.find();
  const all = await link.listAddresses();
  const names = new Map((await links.listLinks()).map(({ index, name }) => [index, name]));
  const set = setFor("clusterIp", "IPv4");
  const present = await ipSets.listSets().catch(() => []);
  const isThere = present.some(({ name, type }) => name === set.name && type === set.type);
  const entries = isThere ? await ipSets.listEntries(set) : [];
  const clusterIps = entries.flatMap((entry) => parseIpAddress(entry.split(",")[0] ?? "") ?? []);
  return {
    virtualIps: all
      .filter(({ linkIndex }) => linkIndex === ours?.index)
      .map(({ address }) => address),
    own: all
      .filter(({ linkIndex }) => linkIndex !== ours?.index)
      .map((own) => ({ ...own, link: names.get(own.linkIndex) ?? String(own.linkIndex) })),
    gateways: await link.listGateways(),
    clusterIps: [...new Set(clusterIps)],
  };
}

/**
 * Reads the tunnels that are up. If routes select the link below a tunnel, assumes the one with the largest MTU, so that
 * the tunnel is not reported if any link can carry its packets.
 */
export async function readTunnels({
  links,
}: Pick<KernelReaders, "links">): Promise<readonly TunnelFact[]> {
  const all = (await links.listLinks()).filter(({ isUp }) => isUp);
  const [largest] = all
    .filter(({ kind, isLoopback }) => !isLoopback && !isTunnel(kind) && kind !== "dummy")
    .toSorted((one, other) => other.mtuBytes - one.mtuBytes);
  return all.flatMap(({ name, kind, mtuBytes, lowerIndex }) => {
    const below =
      lowerIndex === undefined ? largest : all.find(({ index }) => index === lowerIndex);
    if (!isTunnel(kind) || below === undefined) return [];
    return [{ name, kind, mtuBytes, below: { name: below.name, mtuBytes: below.mtuBytes } }];
  });
}

function isTunnel(kind: string | undefined): kind is string {
  return kind !== undefined && tunnelHeaderBytes.has(kind);
}

/** Counter names are on one line that begins with `TcpExt:`, and their values are on the next. */
export function readReversePath(
  { sysctl }: Pick<KernelReaders, "sysctl">,
  counters: string = readFileSync("/proc/net/netstat", "latin1"),
  links: readonly string[] = readdirSync("/proc/sys/net/ipv4/conf"),
): ReversePathFacts {
  const [names = [], values = []] = counters
    .split("\n")
    .filter((line) => line.startsWith("TcpExt:"))
    .map((line) => line.split(" "));
  const droppedPackets = Number(values[names.indexOf("IPReversePathFilter")]);
  if (!Number.isInteger(droppedPackets)) {
    throw new Error("/proc/net/netstat has no IPReversePathFilter");
  }
  const isLink = (name: string): boolean => !["all", "default", "lo"].includes(name);
  const strictLinks = links.filter((name) => isLink(name) && isStrict(sysctl, name));
  return { strictLinks, droppedPackets };
}

/** Reads IPVS only if a link for tunnels exists. */
export async function readForwarding({
  links,
  routes,
  ipvs,
}: Pick<KernelReaders, "links" | "routes" | "ipvs">): Promise<ForwardingFacts> {
  const all = await links.listLinks();
  const ours = ipFamilies
    .map((family) => tunnelLinks[family].name)
    .filter((one) => all.some((link) => link.name === one));
  const uplinks = new Map<IpFamily, { readonly name: string; readonly mtu: number }>();
  const undelivered: string[] = [];
  for (const family of ipFamilies) {
    const route = await routes.find(outside[family]);
    const uplink = all.find(({ index }) => index === route?.linkIndex);
    if (uplink === undefined) continue;
    uplinks.set(family, { name: uplink.name, mtu: uplink.mtuBytes });
    const { name } = tunnelLinks[family];
    const linkIndex = all.find((link) => link.name === name)?.index;
    if (linkIndex === undefined) continue;
    const arriving = await routes.find(outside[family], { source: outside[family], linkIndex });
    if (arriving?.isLocal !== true) undelivered.push(name);
  }
  return {
    ...{ links: ours, undelivered },
    ...(ours.length === 0 ? { connections: 0, unanswered: [] } : await readForwarded(ipvs)),
    uplinks,
  };
}

/**
 * Replies do not return through this node, but IPVS notices when a client continues after its SYN. Packets in tunnels
 * keep their destination port.
 */
async function readForwarded(
  ipvs: KernelReaders["ipvs"],
): Promise<Pick<ForwardingFacts, "connections" | "unanswered">> {
  const servers = (await ipvs.listVirtualServers()).filter(({ protocol }) => protocol === "FWM");
  const nodes = (await ipvs.listRealServers(servers)).flat().filter(isTunneledTo);
  const addresses = new Set(nodes.map(({ address }) => address));
  const connections = listConnections(
    ({ clientPort, virtualServer: { protocol, port }, realServer }) =>
      protocol === "TCP" &&
      clientPort !== 0 &&
      realServer.port === port &&
      addresses.has(realServer.address),
  );
  const answering = new Set<string>(
    connections
      .filter(({ state }) => state === "ESTABLISHED")
      .map(({ realServer: { address, port } }) => hostPort(address, port)),
  );
  const { unanswered = [] } = unansweredIn(connections);
  return {
    connections: connections.length,
    unanswered: unanswered.filter(({ realServer }) => !answering.has(realServer)),
  };
}

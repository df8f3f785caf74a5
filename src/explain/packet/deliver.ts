import { type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { isTunnel, type RealServer, type RealServerId } from "../../state/real-server.ts";
import { type ArrivedPacket, followConnection } from "./connection.ts";
import { isHere, isLocal, leavingAddress, type NodeState, routeKey } from "./node-state.ts";
import type { Packet, PacketOnPath } from "./packet.ts";
import type { EndpointPath } from "./path.ts";
import {
  lastPlaces,
  linkPlaces,
  passTables,
  type Step,
  type Traversal,
  traverse,
} from "./traverse.ts";

/** Follows a packet out of this node: POSTROUTING, then the chains of the link, which see the masqueraded source. */
export function leave(
  onPath: PacketOnPath,
  state: NodeState,
): Pick<Traversal, "verdict" | "steps" | "isMasqueraded"> {
  const last = passTables(lastPlaces, onPath, state);
  if (last.verdict !== "pass") return last;
  const { packet, virtual, destination } = onPath;
  const nat = traverse("POSTROUTING", "nat", onPath, state);
  const mayBeMasqueraded = virtual === undefined || state.network.isIpvsTracked;
  const isMasqueraded = (nat.isMasqueraded || last.isMasqueraded) && mayBeMasqueraded;
  const left = isMasqueraded ? leavingAddress(destination, state) : undefined;
  const outside = { ...onPath, packet: { ...packet, source: left ?? packet.source } };
  const { verdict, steps } = passTables(linkPlaces, outside, state);
  return { verdict, isMasqueraded, steps: [...last.steps, ...nat.steps, ...steps] };
}

/** Determines what the endpoint sees, and whether its reply reaches the client. Pure. */
export function deliver(arrived: ArrivedPacket, state: NodeState): EndpointPath {
  const { packet, endpoint, steps, isMasqueraded, isByIpvs } = arrived;
  const lost = { realServer: endpoint, isMasqueraded, fate: "dropped" } as const;
  const { address } = endpoint;
  const unrouted = missingRoute(endpoint, state);
  if (unrouted !== undefined) return { ...unrouted, isMasqueraded, steps };
  // IPVS keeps the route of a local process's packet if the real server is on this node (ip_vs_xmit.c).
  const keepsRoute = isByIpvs && packet.isFromNode && isHere(address, state);
  if (keepsRoute && !isHere(packet.destination, state)) {
    const obstacle = `${packet.destination} is not an address of this node, so the packet leaves the node instead of reaching ${address}`;
    return { ...lost, steps, obstacle };
  }
  const source = isMasqueraded ? leavingAddress(address, state) : packet.source;
  const lossBehind = isHere(address, state) ? undefined : lossBehindNode(packet, source, state);
  if (lossBehind !== undefined) return { ...lost, steps, obstacle: lossBehind };
  if (state.network.unrouted.has(routeKey(packet.source, address))) {
    const link = state.network.routes.get(address)?.link;
    const obstacle = `a route or routing rule drops its replies (ip rule; ip route get ${packet.source} from ${address} iif ${link})`;
    return { ...lost, steps, obstacle };
  }
  const rest = followConnection(arrived, source, state);
  if (rest.lost !== undefined) {
    const { packets, verdict } = rest.lost;
    const what = packets === "replies" ? "its replies" : "the connection's later packets";
    const obstacle = `${what} are ${verdict}${byText(rest.steps.at(-1))}`;
    return { ...lost, steps: [...steps, ...rest.steps], obstacle };
  }
  const obstacle = answerObstacle(arrived, state);
  return {
    ...{ realServer: endpoint, isMasqueraded },
    steps: [...steps, ...rest.steps],
    fate: "delivered",
    ...(source === undefined ? {} : { source }),
    ...(obstacle === undefined ? {} : { obstacle }),
  };
}

/** The path of packets to an endpoint without a usable route. Undefined if there is a usable route. */
export function missingRoute(realServer: RealServerId, state: NodeState): EndpointPath | undefined {
  const { address } = realServer;
  if (isHere(address, state) || state.network.routes.has(address)) return undefined;
  const obstacle = `there is no route to ${address}, or the route rejects packets (ip route get ${address})`;
  return { realServer, steps: [], isMasqueraded: false, fate: "dropped", obstacle };
}

/**
 * The path to another node through a tunnel. That node's rules and network are not known. Undefined for other real
 * servers.
 */
export function throughTunnel(
  { address, forwardingMethod }: RealServer,
  { source }: Packet,
  state: NodeState,
): EndpointPath | undefined {
  if (!isTunnel({ forwardingMethod })) return undefined;
  const realServer = { address, port: 0 };
  const lost = missingRoute(realServer, state);
  if (lost !== undefined) return { ...lost, isTunneled: true };
  const way = { realServer, steps: [], isMasqueraded: false } as const;
  return { ...way, isTunneled: true, fate: "delivered", source };
}

/** Why a remote endpoint does not reply, or why its replies are lost. Undefined if the client gets replies. */
function lossBehindNode(
  { family, source, isFromNode }: Packet,
  seenSource: IpAddress | undefined,
  { network }: NodeState,
): string | undefined {
  if (seenSource !== undefined && isLoopback(seenSource))
    return `endpoints drop packets from ${seenSource}`;
  if (family === "IPv6" && isLoopback(source))
    return `packets from ${source} do not leave this node, even if a rule masquerades them`;
  if (family === "IPv4" && isLoopback(source) && !network.isLoopbackRouted)
    return `net.ipv4.conf.all.route_localnet is 0, so this node drops replies to ${source}`;
  return isFromNode || network.isForwarding ? undefined : notForwarding(family);
}

export function notForwarding(family: IpFamily): string {
  const name = family === "IPv4" ? "net.ipv4.ip_forward" : "net.ipv6.conf.all.forwarding";
  return `${name} is 0, so this node forwards nothing`;
}

/** Formats the cause of a loss, with a leading space: ` by filter FORWARD: -j DROP`. */
export function byText(step: Step | string | undefined): string {
  if (step === undefined) return "";
  if (typeof step === "string") return ` ${step}`;
  const { table, chain, rule, unless } = step;
  const doubt =
    unless === undefined
      ? ""
      : `, unless a rule that is not evaluated lets them through (${unless})`;
  return ` by ${table} ${chain}: ${rule}${doubt}`;
}

/**
 * Why an endpoint's replies bypass this node, which must translate them back to the address that the client used.
 * Undefined if they pass through this node. Replies to masqueraded packets always do.
 */
function answerObstacle(
  { packet: { source }, endpoint, isMasqueraded }: ArrivedPacket,
  state: NodeState,
): string | undefined {
  if (isMasqueraded || isLocal(endpoint.address, state)) return undefined;
  const { network, onNode } = state;
  if (endpoint.address === source) return "the endpoint sees its own address as the source";
  // The EndpointSlice names the endpoint's node.
  const isOnNode = onNode.has(endpoint.address);
  if (isLocal(source, state)) {
    const isElsewhere = state.bound.has(source) && !isOnNode;
    return isElsewhere
      ? `the endpoint's node does not send replies for ${source} to this node`
      : undefined;
  }
  // An endpoint on the client's link replies directly to the client, unless netfilter sees the bridge's packets.
  const [back, out] = [network.routes.get(source), network.routes.get(endpoint.address)];
  if (back === undefined || back.link !== out?.link) return undefined;
  if (!isOnNode)
    return `client and endpoint are both behind ${back.link}: replies do not pass through this node`;
  if (!back.isBridge || network.isBridgeFiltered) return undefined;
  return `replies stay within the bridge ${back.link}, where netfilter does not see them (bridge-nf-call-iptables)`;
}

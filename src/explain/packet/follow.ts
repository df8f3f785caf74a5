/**
 * Follows the whole path of a packet, in every mode. The packet traverses raw, mangle and nat. It then reaches the
 * first of these that applies: an endpoint that rules chose, a socket to which rules redirect, IPVS, or a local
 * process. IPVS intercepts packets from this node before the filter table, and packets from outside after INPUT. Pure.
 */
import type { ListenerFact } from "../../answer/answers.ts";
import { type IpAddress, type IpFamily, isLoopback, isWildcard } from "../../base/ip.ts";
import type { NftHook as Hook } from "../../state/nft-rule.ts";
import { type RealServer, type RealServerId, realServerKey } from "../../state/real-server.ts";
import { markServerId, type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import { followConnection } from "./connection.ts";
import { isFull } from "./connection-limit.ts";
import { byText, deliver, leave, missingRoute, notForwarding, throughTunnel } from "./deliver.ts";
import { fullTableDoubts, markDoubts } from "./doubts.ts";
import {
  isHere,
  isLocal,
  type ListedServer,
  leavingAddress,
  type NodeState,
} from "./node-state.ts";
import type { Packet, PacketOnPath } from "./packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./path.ts";
import { arrivalDoubts, returnPathEnd, withRefusal } from "./return-path.ts";
import {
  deliveryPlaces,
  everyTraversal,
  filterHooks,
  filterPlaces,
  firstPlaces,
  outputPlaces,
  type Place,
  passTables,
  type Step,
  type Traversal,
} from "./traverse.ts";

/** Follows the packet to every endpoint that a random rule may choose. */
export function follow(packet: Packet, state: NodeState): PacketPath {
  const bridge = unfilteredBridge(packet, state);
  if (bridge !== undefined) return { steps: [], end: { kind: "forwarded", link: bridge } };
  const hook = packet.isFromNode ? "OUTPUT" : "PREROUTING";
  const entered = passTables(firstPlaces(hook), sent(packet, 0), state);
  const stopped = stoppedEnd(entered) ?? returnPathEnd(packet, state);
  if (stopped !== undefined) return { steps: entered.steps, end: stopped };
  const { steps, end } = followThroughNat(packet, hook, entered.mark, state);
  const doubts = [...fullTableDoubts(packet, state), ...arrivalDoubts(packet, state)];
  return withRefusal(packet, { steps: [...entered.steps, ...doubts, ...steps], end }, state);
}

/** The bridge that the packet does not leave. Undefined if it leaves the bridge or if netfilter sees it there. */
function unfilteredBridge(
  { source, destination, inLink, isBridged }: Packet,
  { network: { routes, bridgePeers } }: NodeState,
): string | undefined {
  const back = routes.get(source);
  const isBeside = bridgePeers.has(destination) || routes.get(destination)?.link === inLink;
  const isWithin = back?.link === inLink && isBeside;
  return back?.isBridge === true && isWithin && !isBridged ? inLink : undefined;
}

function followThroughNat(
  packet: Packet,
  hook: Hook,
  firstMark: number,
  state: NodeState,
): PacketPath {
  const outcomes = everyTraversal(hook, "nat", sent(packet, firstMark), state);
  const chosen = outcomes.flatMap(({ translation, ...outcome }) =>
    translation?.kind === "translate" ? [{ ...outcome, endpoint: translation }] : [],
  );
  const other = outcomes.find(({ translation }) => translation?.kind !== "translate");
  const rest = other === undefined ? undefined : followUnchosen(packet, other, state);
  if (chosen.length === 0) return rest ?? { steps: [], end: { kind: "node" } };
  const common = commonSteps(chosen.map(({ steps }) => steps));
  const endpoints = chosen.map(({ steps, mark, endpoint }) => ({
    ...translated(
      packet,
      { ...sent(packet, mark), destination: endpoint.address, port: endpoint.port },
      state,
    ),
    choice: steps.slice(common.length),
  }));
  const others = rest === undefined ? {} : { rest: rest.end };
  return { steps: common, end: { kind: "balanced", isByIpvs: false, endpoints, ...others } };
}

/** Follows a packet for which no nat rule chose an endpoint. */
function followUnchosen(
  packet: Packet,
  { steps, mark, translation }: Traversal,
  state: NodeState,
): PacketPath {
  if (translation?.kind === "redirect") {
    return toSocket(packet, { steps, mark }, state, translation.port);
  }
  const sentByIpvs = packet.isFromNode ? balance(sent(packet, mark), state) : undefined;
  if (sentByIpvs !== undefined) {
    return { steps: [...steps, ...markSteps(sent(packet, mark), state)], end: sentByIpvs };
  }
  const { inLink, destination } = packet;
  const isForNode = inLink === state.network.deliveringLink || isHere(destination, state);
  if (isForNode && serviceSocketAt(packet, packet.port, state) !== undefined) {
    return toSocket(packet, { steps, mark }, state, packet.port);
  }
  const unrouted = isForNode ? undefined : unroutedEnd(packet, state);
  if (unrouted !== undefined) return { steps, end: unrouted };
  const routing = isForNode ? [] : markDoubts(packet, mark, state);
  const isForIpvs =
    isForNode && !packet.isFromNode && serverOf(sent(packet, mark), state) !== undefined;
  const places = filterPlaces(filterHooks(packet, isForNode), isForIpvs);
  const filtered = passTables(places, sent(packet, mark), state);
  const passed = [...steps, ...routing, ...filtered.steps];
  const stopped = stoppedEnd(filtered);
  if (stopped !== undefined) return { steps: passed, end: stopped };
  if (isForNode) {
    const onPath = sent(packet, filtered.mark);
    const comesByIpvs = isForIpvs ? balance(onPath, state) : undefined;
    if (comesByIpvs === undefined) return { steps: passed, end: { kind: "node" } };
    return { steps: [...passed, ...markSteps(onPath, state)], end: comesByIpvs };
  }
  if (packet.isFromNode && packet.family === "IPv6" && isLoopback(packet.source)) {
    const by = `by the receiving host, which accepts ${packet.source} only from itself`;
    return { steps: passed, end: { kind: "dropped", by } };
  }
  const routed = followRouted(sent(packet, filtered.mark), state);
  return { steps: [...passed, ...routed.steps], end: routed.end };
}

/** Follows a packet to another host, and the packets that come after it. */
function followRouted(onPath: PacketOnPath, state: NodeState): PacketPath {
  const { packet, destination: address, port } = onPath;
  const { steps, ...leaving } = leave(onPath, state);
  const stopped = stoppedEnd({ ...leaving, steps });
  if (stopped !== undefined) return { steps, end: stopped };
  const { isMasqueraded } = leaving;
  const arrived = { steps, packet, endpoint: { address, port }, isMasqueraded, isByIpvs: false };
  const seen = isMasqueraded ? leavingAddress(address, state) : packet.source;
  const rest = followConnection(arrived, seen, state);
  if (rest.lost !== undefined) {
    const { packets, verdict } = rest.lost;
    const when = packets === "replies" ? "on the way back" : "after the first reply";
    const by = `${when}: ${packets} are ${verdict}${byText(rest.steps.at(-1))}`;
    return { steps: [...steps, ...rest.steps], end: { kind: "dropped", by } };
  }
  return {
    steps: [...steps, ...rest.steps],
    end: { kind: "forwarded", link: outLinkOf(packet, state) },
  };
}

function outLinkOf(
  { destination, inLink }: Packet,
  { network: { routes, bridgePeers } }: NodeState,
): string | undefined {
  return bridgePeers.has(destination) ? inLink : routes.get(destination)?.link;
}

/**
 * The end of a packet to another host if the kernel does not route the packet. Undefined if it does. A process that
 * sends from an IPv4 loopback address gets an error.
 */
function unroutedEnd(packet: Packet, state: NodeState): PathEnd | undefined {
  if (outLinkOf(packet, state) === undefined) return { kind: "forwarded", link: undefined };
  const why = forwardingObstacle(packet, state);
  if (why === undefined) return undefined;
  return { kind: packet.isFromNode ? "refused" : "dropped", by: `because ${why}` };
}

/** The packet before any translation. */
function sent(packet: Packet, mark: number): PacketOnPath {
  const { destination, port } = packet;
  return { packet, destination, port, mark };
}

/** The end of a packet that rules drop or reject. Undefined if the rules let it pass. */
function stoppedEnd({ verdict, steps }: Pick<Traversal, "verdict" | "steps">): PathEnd | undefined {
  return verdict === "pass" ? undefined : { kind: verdict, by: steps.at(-1) };
}

/** The virtual server for a packet. As in the kernel, the packet's mark takes precedence over its destination. */
function serverOf(onPath: PacketOnPath, { servers }: NodeState): ListedServer | undefined {
  const { protocol, destination: address, port } = onPath.packet;
  const key = markKey(onPath);
  const marked = key && servers.get(key);
  return marked ?? servers.get(virtualServerKey({ protocol, address, port }));
}

/** The key of the virtual server for the packet's mark. Undefined without a mark. */
function markKey({ packet: { family }, mark }: PacketOnPath): ServerKey | undefined {
  return mark === 0 ? undefined : virtualServerKey(markServerId(family, mark));
}

/** Shows that the packet's mark selects a virtual server. */
function markSteps(onPath: PacketOnPath, { servers }: NodeState): readonly Step[] {
  const chain = markKey(onPath);
  const rule = "the packet's mark selects this virtual server";
  return chain && servers.has(chain)
    ? [{ hook: "INPUT", table: "IPVS", chain, rule, entries: [] }]
    : [];
}

/** What IPVS does with a packet. Undefined if there is no virtual server for it. */
function balance(onPath: PacketOnPath, state: NodeState): PathEnd | undefined {
  const { packet, destination: address, port } = onPath;
  const server = serverOf(onPath, state);
  if (server === undefined) return undefined;
  const weighted = server.realServers.filter(({ weight }) => weight > 0);
  if (weighted.length === 0) return { kind: "no-endpoint" };
  const taking = weighted.filter((realServer) => isFull(realServer) !== true);
  if (taking.length === 0)
    return { kind: "refused", by: "because every endpoint has reached its connection limit" };
  const endpoints = taking.map((realServer) => {
    const tunneled = throughTunnel(realServer, packet, state);
    if (tunneled !== undefined) return tunneled;
    const { address: destination } = realServer;
    // A real server with port 0 gets the packet at the destination port.
    const realPort = realServer.port === 0 ? port : realServer.port;
    const balanced = { ...onPath, destination, port: realPort, virtual: { address, port } };
    // IPVS sends packets through OUTPUT without nat, except packets from outside to local processes.
    const goesUp = !packet.isFromNode && isLocal(destination, state);
    const path = toEndpoint(balanced, goesUp ? deliveryPlaces : outputPlaces, state);
    if (isFull(realServer) === false) return path;
    return { ...path, steps: [limitStep(realServer), ...path.steps] };
  });
  return { kind: "balanced", isByIpvs: true, endpoints };
}

/** A step for a connection limit that may exclude the real server. Whether it does is unknown. */
function limitStep(realServer: RealServer): Step {
  const rule = `limit of ${realServer.limit?.upper} connections`;
  const chain = realServerKey(realServer);
  return { hook: "INPUT", table: "IPVS", chain, rule, entries: [], isMaybe: true };
}

function commonSteps(lists: readonly (readonly Step[])[]): readonly Step[] {
  const [first = [], ...others] = lists;
  const differs = first.findIndex(({ chain, rule }, index) =>
    others.some((steps) => steps[index]?.chain !== chain || steps[index]?.rule !== rule),
  );
  return differs < 0 || others.length === 0 ? first : first.slice(0, differs);
}

/** Follows a packet whose destination nat rules rewrote. */
function translated(packet: Packet, onPath: PacketOnPath, state: NodeState): EndpointPath {
  const isForNode = isLocal(onPath.destination, state);
  const obstacle = isForNode ? undefined : forwardingObstacle(packet, state);
  if (obstacle === undefined) {
    const path = toEndpoint(onPath, filterPlaces(filterHooks(packet, isForNode)), state);
    const routing = isForNode ? [] : markDoubts(packet, onPath.mark, state);
    return { ...path, steps: [...routing, ...path.steps] };
  }
  const realServer = { address: onPath.destination, port: onPath.port };
  return { realServer, steps: [], isMasqueraded: false, fate: "dropped", obstacle };
}

/** Why the kernel drops a packet although the rules let it pass. Undefined if the kernel does not drop it. */
function forwardingObstacle(
  { family, source, isFromNode }: Packet,
  { network }: NodeState,
): string | undefined {
  if (isFromNode) {
    return family === "IPv4" && isLoopback(source) && !network.isLoopbackRouted
      ? "net.ipv4.conf.all.route_localnet is 0, so nothing leaves from a loopback address"
      : undefined;
  }
  return network.isForwarding ? undefined : notForwarding(family);
}

/** Follows a packet to its endpoint, through these places and POSTROUTING. */
function toEndpoint(
  onPath: PacketOnPath,
  places: readonly Place[],
  state: NodeState,
): EndpointPath {
  const { packet } = onPath;
  const endpoint = { address: onPath.destination, port: onPath.port };
  // IPVS looks up the route before the packet traverses these rules.
  const unrouted = onPath.virtual === undefined ? undefined : missingRoute(endpoint, state);
  if (unrouted !== undefined) return unrouted;
  const { verdict, steps, mark } = passTables(places, onPath, state);
  if (verdict !== "pass") {
    const isLost = verdict === "refused" && !reachesClient(onPath, state);
    const fate = isLost ? "dropped" : verdict;
    return { realServer: endpoint, steps, fate, isMasqueraded: false };
  }
  // A packet from outside to a local process does not traverse POSTROUTING.
  const isByIpvs = onPath.virtual !== undefined;
  if (!packet.isFromNode && isLocal(endpoint.address, state)) {
    return deliver({ packet, endpoint, steps, isMasqueraded: false, isByIpvs }, state);
  }
  const leaving = leave({ ...onPath, mark }, state);
  const { isMasqueraded } = leaving;
  const passed = [...steps, ...leaving.steps];
  return leaving.verdict === "pass"
    ? deliver({ packet, endpoint, steps: passed, isMasqueraded, isByIpvs }, state)
    : { realServer: endpoint, steps: passed, fate: leaving.verdict, isMasqueraded: false };
}

/**
 * Whether the client sees a rejection. The kernel drops a TCP reset from another host's address to a loopback address.
 * UDP senders get an error without a packet.
 */
function reachesClient({ packet, destination }: PacketOnPath, state: NodeState): boolean {
  const { isFromNode, protocol, source } = packet;
  return !(isFromNode && protocol === "TCP" && isLoopback(source)) || isHere(destination, state);
}

const loopbacks: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: "127.0.0.1" as IpAddress,
  IPv6: "::1" as IpAddress,
};

/** Returns the kube-ipvs socket that accepts packets to this address and port. Undefined if there is none. */
function serviceSocketAt(packet: Packet, port: number, state: NodeState): ListenerFact | undefined {
  return state.serviceSockets.find(
    (one) =>
      isOf(one, packet) &&
      one.port === port &&
      (isWildcard(one.host) || one.host === packet.destination),
  );
}

function isOf({ family, protocol }: ListenerFact, packet: Packet): boolean {
  return family === packet.family && protocol === packet.protocol;
}

/** Follows a packet through the filter table to the socket on `port`. */
function toSocket(
  packet: Packet,
  { steps, mark }: Pick<Traversal, "steps" | "mark">,
  state: NodeState,
  port: number,
): PacketPath {
  const redirected = state.serviceSockets.find(
    (one) => isOf(one, packet) && (packet.isFromNode ? one.portOnLoopback : one.port) === port,
  );
  const socket =
    port === packet.port ? (serviceSocketAt(packet, port, state) ?? redirected) : redirected;
  const destination = packet.isFromNode
    ? loopbacks[packet.family]
    : (state.network.routes.get(packet.source)?.source ?? packet.destination);
  const onPath = { packet, port, mark, destination };
  const filtered = passTables(filterPlaces(filterHooks(packet, true)), onPath, state);
  const end: PathEnd =
    socket === undefined
      ? { kind: "unheard", port }
      : { kind: "taken", endpoints: socket.backends.map((one) => connected(one, state)) };
  return { steps: [...steps, ...filtered.steps], end: stoppedEnd(filtered) ?? end };
}

/** Describes a connection that kube-ipvs itself makes, so the endpoint sees this node's address. */
function connected(realServer: RealServerId, state: NodeState): EndpointPath {
  const source = leavingAddress(realServer.address, state);
  const seen = source === undefined ? {} : { source };
  return { realServer, steps: [], isMasqueraded: true, fate: "delivered", ...seen };
}

/**
 * The whole path of a packet, in every mode: raw, mangle and nat, then what comes first of an endpoint that rules chose, a socket that they
 * redirect to, IPVS, and a process. IPVS takes what a process of this node sends before filter sees it, and what comes from
 * outside behind INPUT. A mode that lacks one of these has nothing in its map. Pure.
 */
import type { ListenerFact } from "../../answer/answers.ts";
import { type IpAddress, type IpFamily, isLoopback, isWildcard } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { deliver, leavingAddress } from "./deliver.ts";
import { isHere, isLocal, type NodeState } from "./node-state.ts";
import type { Packet, PacketOnPath } from "./packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./path.ts";
import {
  everyTraversal,
  filterPlaces,
  firstPlaces,
  type Hook,
  passTables,
  type Step,
  type Traversal,
  traverse,
} from "./traverse.ts";

/** Every endpoint that rules may choose at random is followed. */
export function follow(packet: Packet, state: NodeState): PacketPath {
  const hook = packet.isFromNode ? "OUTPUT" : "PREROUTING";
  const entered = passTables(firstPlaces(hook), sent(packet, 0), state);
  const stopped = stoppedEnd(entered);
  if (stopped !== undefined) return { steps: entered.steps, end: stopped };
  const { steps, end } = followThroughNat(packet, hook, entered.mark, state);
  return { steps: [...entered.steps, ...steps], end };
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

/** No rule of nat chose an endpoint. */
function followUnchosen(
  packet: Packet,
  { steps, mark, translation }: Traversal,
  state: NodeState,
): PacketPath {
  if (translation?.kind === "redirect") {
    return toSocket(packet, { steps, mark }, state, translation.port);
  }
  const sentByIpvs = packet.isFromNode ? balance(sent(packet, mark), state) : undefined;
  if (sentByIpvs !== undefined) return { steps, end: sentByIpvs };
  const isForNode = isHere(packet.destination, state);
  if (isForNode && serviceSocketAt(packet, packet.port, state) !== undefined) {
    return toSocket(packet, { steps, mark }, state, packet.port);
  }
  const filtered = passTables(
    filterPlaces(filterHooks(packet, isForNode)),
    sent(packet, mark),
    state,
  );
  const comesByIpvs =
    isForNode && !packet.isFromNode ? balance(sent(packet, filtered.mark), state) : undefined;
  const unserved: PathEnd = isForNode
    ? { kind: "node" }
    : { kind: "forwarded", link: state.network.routes.get(packet.destination)?.link };
  const end = stoppedEnd(filtered) ?? comesByIpvs ?? unserved;
  return { steps: [...steps, ...filtered.steps], end };
}

/** On its way to the destination that it began with. */
function sent(packet: Packet, mark: number): PacketOnPath {
  const { destination, port } = packet;
  return { packet, destination, port, mark };
}

/** Hooks of filter: a packet of the node to the node itself comes back in by the loopback link. */
function filterHooks({ isFromNode }: Packet, isForNode: boolean): readonly Hook[] {
  if (!isFromNode) return [isForNode ? "INPUT" : "FORWARD"];
  return isForNode ? ["OUTPUT", "INPUT"] : ["OUTPUT"];
}

/** Undefined: filter lets it through. */
function stoppedEnd({ verdict, steps }: Pick<Traversal, "verdict" | "steps">): PathEnd | undefined {
  return verdict === "pass" ? undefined : { kind: verdict, by: steps.at(-1) };
}

/** Undefined: there is no virtual server. */
function balance(onPath: PacketOnPath, state: NodeState): PathEnd | undefined {
  const { packet, destination: address, port } = onPath;
  const server = state.servers.get(virtualServerKey({ protocol: packet.protocol, address, port }));
  if (server === undefined) return undefined;
  const taking = server.realServers.filter(({ weight }) => weight > 0);
  if (taking.length === 0) return { kind: "no-endpoint" };
  const endpoints = taking.map((realServer) => {
    const { address: destination, port: realPort } = realServer;
    const balanced = { ...onPath, destination, port: realPort, virtual: { address, port } };
    // IPVS sends it through OUTPUT, also if it came from outside; nat has decided before.
    const goesUp = !packet.isFromNode && isLocal(destination, state);
    return toEndpoint(balanced, goesUp ? [] : ["OUTPUT"], state);
  });
  return { kind: "balanced", isByIpvs: true, endpoints };
}

function commonSteps(lists: readonly (readonly Step[])[]): readonly Step[] {
  const [first = [], ...others] = lists;
  const differs = first.findIndex(({ chain, rule }, index) =>
    others.some((steps) => steps[index]?.chain !== chain || steps[index]?.rule !== rule),
  );
  return differs < 0 || others.length === 0 ? first : first.slice(0, differs);
}

/** Rules rewrote its destination. */
function translated(packet: Packet, onPath: PacketOnPath, state: NodeState): EndpointPath {
  const isForNode = isLocal(onPath.destination, state);
  const obstacle = isForNode ? undefined : forwardingObstacle(packet, state);
  if (obstacle === undefined) return toEndpoint(onPath, filterHooks(packet, isForNode), state);
  const realServer = { address: onPath.destination, port: onPath.port };
  return { realServer, steps: [], isMasqueraded: false, fate: "dropped", obstacle };
}

/** Why the kernel drops a packet that rules let through. */
function forwardingObstacle(
  { family, source, isFromNode }: Packet,
  { network }: NodeState,
): string | undefined {
  if (isFromNode) {
    return isLoopback(source) && !network.isLoopbackRouted
      ? "net.ipv4.conf.all.route_localnet is 0, so nothing leaves from a loopback address"
      : undefined;
  }
  const name = family === "IPv4" ? "net.ipv4.ip_forward" : "net.ipv6.conf.all.forwarding";
  return network.isForwarding ? undefined : `${name} is 0, so this node forwards nothing`;
}

/** An endpoint is chosen: through filter at these hooks, and POSTROUTING. */
function toEndpoint(onPath: PacketOnPath, hooks: readonly Hook[], state: NodeState): EndpointPath {
  const { packet } = onPath;
  const endpoint = { address: onPath.destination, port: onPath.port };
  const { verdict, steps, mark } = passTables(filterPlaces(hooks), onPath, state);
  if (verdict !== "pass") {
    return { realServer: endpoint, steps, fate: verdict, isMasqueraded: false };
  }
  // A packet from outside for a process of this node does not leave.
  if (!packet.isFromNode && isLocal(endpoint.address, state)) {
    return deliver({ packet, endpoint, steps, isMasqueraded: false }, state);
  }
  const leaving = traverse("POSTROUTING", "nat", { ...onPath, mark }, state);
  const mayBeMasqueraded = onPath.virtual === undefined || state.network.isIpvsTracked;
  const isMasqueraded = leaving.isMasqueraded && mayBeMasqueraded;
  return deliver({ packet, endpoint, steps: [...steps, ...leaving.steps], isMasqueraded }, state);
}

const loopbacks: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: "127.0.0.1" as IpAddress,
  IPv6: "::1" as IpAddress,
};

/** The socket of kube-ipvs that accepts packets to this address and port; undefined: none does. */
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

/** Filter may stop it on its way to the socket. `port`: of the socket. */
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
  const filtered = passTables(
    filterPlaces(filterHooks(packet, true)),
    { packet, port, mark, destination },
    state,
  );
  const end: PathEnd =
    socket === undefined
      ? { kind: "unheard", port }
      : { kind: "taken", endpoints: socket.backends.map((one) => connected(one, state)) };
  return { steps: [...steps, ...filtered.steps], end: stoppedEnd(filtered) ?? end };
}

/** A connection of this process: the endpoint sees this node. */
function connected(realServer: RealServerId, state: NodeState): EndpointPath {
  const source = leavingAddress(realServer.address, state);
  const seen = source === undefined ? {} : { source };
  return { realServer, steps: [], isMasqueraded: true, fate: "delivered", ...seen };
}

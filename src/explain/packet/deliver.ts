import { type IpAddress, type IpFamily, isLoopback } from "../../base/ip.ts";
import { type RealServerId, realServerKey } from "../../state/real-server.ts";
import { isHere, isLocal, type NodeState, routeKey } from "./node-state.ts";
import type { Packet, PacketOnPath } from "./packet.ts";
import type { EndpointPath } from "./path.ts";
import {
  filterPlaces,
  firstPlaces,
  lastPlaces,
  linkPlaces,
  type Place,
  passTables,
  type Step,
  type Traversal,
  traverse,
} from "./traverse.ts";

/** A packet on its way to an endpoint. No rule has dropped or rejected it. */
export interface ArrivedPacket {
  readonly packet: Packet;
  readonly endpoint: RealServerId;
  readonly steps: readonly Step[];
  /** If false, the endpoint sees the packet's own source address. */
  readonly isMasqueraded: boolean;
  readonly isByIpvs: boolean;
}

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

/** Determines what the endpoint sees, and whether its answer reaches the client. Pure. */
export function deliver(arrived: ArrivedPacket, state: NodeState): EndpointPath {
  const { packet, endpoint, steps, isMasqueraded, isByIpvs } = arrived;
  const lost = { realServer: endpoint, isMasqueraded, fate: "dropped" } as const;
  const { address } = endpoint;
  if (!isHere(address, state) && !state.network.routes.has(address)) {
    const obstacle = `there is no route to ${address}, or the route rejects packets (ip route get ${address})`;
    return { ...lost, steps, obstacle };
  }
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
    const obstacle = `a route or routing rule drops its answers (ip rule; ip route get ${packet.source} from ${address} iif ${link})`;
    return { ...lost, steps, obstacle };
  }
  const answer = followAnswer(arrived, source, state);
  if (answer.verdict !== "pass") {
    const obstacle = `its answers are dropped${byText(answer.steps.at(-1))}`;
    return { ...lost, steps: [...steps, ...answer.steps], obstacle };
  }
  const obstacle = answerObstacle(arrived, state);
  return {
    ...{ realServer: endpoint, isMasqueraded },
    steps: [...steps, ...answer.steps.filter(({ isMaybe }) => isMaybe)],
    fate: "delivered",
    ...(source === undefined ? {} : { source }),
    ...(obstacle === undefined ? {} : { obstacle }),
  };
}

/** Why a remote endpoint does not answer, or why its answers are lost. Undefined if they arrive. */
function lossBehindNode(
  { family, source, isFromNode }: Packet,
  seenSource: IpAddress | undefined,
  { network }: NodeState,
): string | undefined {
  if (seenSource !== undefined && isLoopback(seenSource))
    return `endpoints drop packets from ${seenSource}`;
  if (family === "IPv4" && isLoopback(source) && !network.isLoopbackRouted)
    return `net.ipv4.conf.all.route_localnet is 0, so this node drops answers to ${source}`;
  return isFromNode || network.isForwarding ? undefined : notForwarding(family);
}

export function notForwarding(family: IpFamily): string {
  const name = family === "IPv4" ? "net.ipv4.ip_forward" : "net.ipv6.conf.all.forwarding";
  return `${name} is 0, so this node forwards nothing`;
}

/**
 * Follows an answer through the rules. It is addressed to the source that the endpoint saw, which nat translates back to
 * the client. IPVS translates the answer's source before filter OUTPUT and before POSTROUTING, and nat does so
 * afterwards. Port 0 stands for the client's unknown port.
 */
export function followAnswer(
  { packet, endpoint: { address, port: endpointPort }, isByIpvs }: Omit<ArrivedPacket, "steps">,
  seenSource: IpAddress | undefined,
  state: NodeState,
): Pick<Traversal, "verdict" | "steps"> {
  const { source: client, destination: virtual, port: virtualPort } = packet;
  const isFromNode = isHere(address, state);
  const isToNode = isHere(client, state);
  const inLink = isFromNode ? "" : (state.network.routes.get(address)?.link ?? "");
  const way = { destination: client, port: 0, inLink, isFromNode, isBridged: false };
  const answer: PacketOnPath = {
    packet: { ...packet, ...way, source: address },
    ...{ destination: client, port: 0, mark: 0, isAnswer: true, endpointPort },
  };
  const translated: PacketOnPath = {
    ...{ ...answer, endpointPort: virtualPort },
    packet: { ...answer.packet, source: virtual },
  };
  const leaving = isByIpvs ? translated : answer;
  const stages: readonly (readonly [readonly Place[], PacketOnPath])[] = [
    ...(isFromNode
      ? ([
          [firstPlaces("OUTPUT"), answer],
          [filterPlaces(["OUTPUT"]), leaving],
          // Through the loopback link.
          ...(isToNode ? ([[filterPlaces(["INPUT"]), translated]] as const) : []),
        ] as const)
      : ([
          [firstPlaces("PREROUTING"), { ...answer, destination: seenSource ?? client }],
          [filterPlaces([isToNode ? "INPUT" : "FORWARD"]), answer],
        ] as const)),
    ...(isToNode
      ? []
      : ([
          [lastPlaces, leaving],
          [linkPlaces, translated],
        ] as const)),
  ];
  const steps: Step[] = [];
  let mark = 0;
  for (const [places, onPath] of stages) {
    const passed = passTables(places, { ...onPath, mark }, state);
    steps.push(...passed.steps);
    ({ mark } = passed);
    if (passed.verdict !== "pass") return { verdict: passed.verdict, steps };
  }
  return { verdict: "pass", steps };
}

/** For example: ` by filter FORWARD: -j DROP`. */
export function byText(step: Step | string | undefined): string {
  if (step === undefined) return "";
  if (typeof step === "string") return ` by ${step}`;
  const { table, chain, rule, unless } = step;
  const doubt =
    unless === undefined
      ? ""
      : `, unless a rule that is not evaluated lets them through (${unless})`;
  return ` by ${table} ${chain}: ${rule}${doubt}`;
}

/** The node's source address for packets to an endpoint. */
export function leavingAddress(endpoint: IpAddress, state: NodeState): IpAddress | undefined {
  if (isLocal(endpoint, state)) return endpoint;
  return state.network.routes.get(endpoint)?.source;
}

/**
 * Why an endpoint's answers bypass this node, which must translate them back to the address that the client used.
 * Undefined if they do not bypass it. Masqueraded packets always return.
 */
function answerObstacle(
  { packet: { source }, endpoint, isMasqueraded }: ArrivedPacket,
  state: NodeState,
): string | undefined {
  if (isMasqueraded || isLocal(endpoint.address, state)) return undefined;
  const { network, onNode } = state;
  if (endpoint.address === source) return "the endpoint sees its own address as the source";
  // The EndpointSlice names the endpoint's node.
  const isOnNode = onNode.has(realServerKey(endpoint));
  if (isLocal(source, state)) {
    const isElsewhere = state.bound.has(source) && !isOnNode;
    return isElsewhere
      ? `the endpoint's node does not send answers for ${source} to this node`
      : undefined;
  }
  // An endpoint on the same link as the client answers it directly, unless netfilter sees the bridge's packets.
  const [back, out] = [network.routes.get(source), network.routes.get(endpoint.address)];
  if (back === undefined || back.link !== out?.link) return undefined;
  if (!isOnNode)
    return `client and endpoint are both behind ${back.link}: answers do not pass through this node`;
  if (!back.isBridge || network.isBridgeFiltered) return undefined;
  return `answers stay within the bridge ${back.link}, where netfilter does not see them (bridge-nf-call-iptables)`;
}

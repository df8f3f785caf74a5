import type { IpAddress } from "../../base/ip.ts";
import { type RealServerId, realServerKey } from "../../state/real-server.ts";
import { isLocal, type NodeState } from "./node-state.ts";
import type { Packet } from "./packet.ts";
import type { EndpointPath } from "./path.ts";
import type { Step } from "./traverse.ts";

/** A packet that every rule let through to an endpoint. */
export interface ArrivedPacket {
  readonly packet: Packet;
  readonly endpoint: RealServerId;
  readonly steps: readonly Step[];
  /** Otherwise the endpoint sees the packet's own source. */
  readonly isMasqueraded: boolean;
}

/** What the endpoint sees, and how its answer goes. Pure. */
export function deliver(arrived: ArrivedPacket, state: NodeState): EndpointPath {
  const { packet, endpoint, steps, isMasqueraded } = arrived;
  const source = isMasqueraded ? leavingAddress(endpoint.address, state) : packet.source;
  const obstacle = answerObstacle(arrived, state);
  return {
    ...{ realServer: endpoint, steps, isMasqueraded },
    fate: "delivered",
    ...(source === undefined ? {} : { source }),
    ...(obstacle === undefined ? {} : { obstacle }),
  };
}

/** The node's address on the way to an endpoint. */
export function leavingAddress(endpoint: IpAddress, state: NodeState): IpAddress | undefined {
  if (isLocal(endpoint, state)) return endpoint;
  return state.network.routes.get(endpoint)?.source;
}

/**
 * Why the answers of an endpoint do not come back to the client through IPVS, which alone can give them the address that
 * the client asked; undefined: they do. Only where the source is kept can anything go wrong.
 */
function answerObstacle(
  { packet: { source }, endpoint, isMasqueraded }: ArrivedPacket,
  state: NodeState,
): string | undefined {
  if (isMasqueraded || isLocal(endpoint.address, state)) return undefined;
  const { network, onNode } = state;
  if (endpoint.address === source) return "the endpoint sees its own address as the source";
  // As its EndpointSlice says.
  const isOnNode = onNode.has(realServerKey(endpoint));
  if (isLocal(source, state)) {
    const isElsewhere = state.bound.has(source) && !isOnNode;
    return isElsewhere
      ? `the endpoint's node does not send ${source} back to this node`
      : undefined;
  }
  // Who is behind the same link as the client answers it directly, unless netfilter sees what the bridge forwards.
  const [back, out] = [network.routes.get(source), network.routes.get(endpoint.address)];
  if (back === undefined || back.link !== out?.link) return undefined;
  if (!isOnNode)
    return `client and endpoint are both behind ${back.link}: answers pass this node by`;
  if (!back.isBridge || network.isBridgeFiltered) return undefined;
  return `answers stay within the bridge ${back.link}, where netfilter does not see them (bridge-nf-call-iptables)`;
}

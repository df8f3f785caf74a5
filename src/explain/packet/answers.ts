import type { IpAddress } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet } from "./packet.ts";
import { isLocal } from "./picture.ts";

export interface Delivery {
  readonly packet: Packet;
  readonly endpoint: RealServerId;
  /** It runs on this node, as its EndpointSlice says. */
  readonly isOnNode: boolean;
  /** Masquerading does not happen, so the endpoint sees the packet's own source. */
  readonly isMasqueraded: boolean;
}

/**
 * Why the answers of an endpoint do not come back to the client through IPVS, which alone can give them the address that
 * the client asked; undefined: they do. Only where the source is kept can anything go wrong. Pure.
 */
export function answerObstacle(
  { packet, endpoint, isOnNode, isMasqueraded }: Delivery,
  surroundings: Surroundings,
): string | undefined {
  const { picture, network } = surroundings;
  const { source } = packet;
  if (isMasqueraded || isLocal(endpoint.address, picture, network)) return undefined;
  if (endpoint.address === source) return "the endpoint sees its own address as the source";
  if (isLocal(source, picture, network)) {
    const isElsewhere = picture.bound.has(source) && !isOnNode;
    return isElsewhere
      ? `the endpoint's node does not send ${source} back to this node`
      : undefined;
  }
  return linkObstacle(source, endpoint, isOnNode, surroundings);
}

/** Who is behind the same link as the client answers it directly, unless netfilter sees what the bridge forwards. */
function linkObstacle(
  source: IpAddress,
  endpoint: RealServerId,
  isOnNode: boolean,
  { network }: Surroundings,
): string | undefined {
  const [back, out] = [network.routes.get(source), network.routes.get(endpoint.address)];
  if (back === undefined || back.link !== out?.link) return undefined;
  if (!isOnNode)
    return `client and endpoint are both behind ${back.link}: answers pass this node by`;
  if (!back.isBridge || network.isBridgeFiltered) return undefined;
  return `answers stay within the bridge ${back.link}, where netfilter does not see them (bridge-nf-call-iptables)`;
}

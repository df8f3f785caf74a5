import type { IpAddress } from "../../base/ip.ts";
import { type RealServerId, realServerKey } from "../../state/real-server.ts";
import { answerObstacle } from "./answers.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet } from "./packet.ts";
import type { EndpointPath, EndpointsOnNode } from "./path.ts";
import { isLocal } from "./picture.ts";
import type { Step } from "./traverse.ts";

/** A packet that every rule let through to an endpoint. */
export interface Arrival {
  readonly packet: Packet;
  readonly endpoint: RealServerId;
  readonly onNode: EndpointsOnNode;
  readonly steps: readonly Step[];
  readonly isMasqueraded: boolean;
}

/** What the endpoint sees, and how its answer goes. Pure. */
export function deliver(arrival: Arrival, surroundings: Surroundings): EndpointPath {
  const { packet, endpoint, onNode, steps, isMasqueraded } = arrival;
  const source = isMasqueraded ? leavingAddress(endpoint.address, surroundings) : packet.source;
  const isOnNode = onNode.has(realServerKey(endpoint));
  const obstacle = answerObstacle({ packet, endpoint, isOnNode, isMasqueraded }, surroundings);
  return {
    ...{ realServer: endpoint, steps, isMasqueraded },
    fate: "delivered",
    ...(source === undefined ? {} : { source }),
    ...(obstacle === undefined ? {} : { obstacle }),
  };
}

/** The node's address on the way to an endpoint. */
export function leavingAddress(
  endpoint: IpAddress,
  { picture, network }: Surroundings,
): IpAddress | undefined {
  if (isLocal(endpoint, picture, network)) return endpoint;
  return network.routes.get(endpoint)?.source;
}

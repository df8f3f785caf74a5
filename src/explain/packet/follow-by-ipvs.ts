/** The whole way of a packet in mode ipvs: rules before IPVS, the virtual server, rules behind it for each real server. Pure. */
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { Passing } from "./packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./path.ts";
import { isLocal } from "./picture.ts";
import {
  enter,
  followOn,
  forwardedEnd,
  isToNode,
  passFilter,
  passingOf,
  stoppedEnd,
  toEndpoint,
  type Walk,
} from "./walk.ts";

/** IPVS takes what comes from outside behind INPUT, and what a process of this node sends before filter. */
export function followByIpvs(walk: Walk): PacketPath {
  const { packet, surroundings } = walk;
  const first = enter(walk);
  if (packet.isFromNode) {
    const balanced = balance(walk, first.mark);
    return balanced === undefined ? followOn(walk, first) : { steps: first.steps, end: balanced };
  }
  if (!isToNode(walk)) return { steps: first.steps, end: forwardedEnd(walk) };
  const filtered = passFilter(["INPUT"], passingOf(packet, first.mark), surroundings);
  const end = stoppedEnd(filtered) ?? balance(walk, filtered.mark) ?? { kind: "node" };
  return { steps: [...first.steps, ...filtered.steps], end };
}

/** Undefined: no virtual server is there. */
function balance(walk: Walk, mark: number): PathEnd | undefined {
  const { protocol, destination: address, port } = walk.packet;
  const key = virtualServerKey({ protocol, address, port });
  const server = walk.surroundings.picture.servers.get(key);
  if (server === undefined) return undefined;
  const taking = server.realServers.filter(({ weight }) => weight > 0);
  if (taking.length === 0) return { kind: "no-endpoint" };
  const passings = taking.map((realServer): Passing => {
    const { address: destination, port: realPort } = realServer;
    return { packet: walk.packet, destination, port: realPort, mark, virtual: { address, port } };
  });
  return { kind: "balanced", endpoints: passings.map((passing) => behindIpvs(walk, passing)) };
}

/** IPVS sends it through OUTPUT, also when it came from outside; nat has decided before. */
function behindIpvs(walk: Walk, passing: Passing): EndpointPath {
  const { picture, network } = walk.surroundings;
  const goesUp = !walk.packet.isFromNode && isLocal(passing.destination, picture, network);
  return toEndpoint(walk, passing, goesUp ? [] : ["OUTPUT"]);
}

/**
 * The way of a packet in mode userspace: rules lead it to a socket of kube-ipvs, or it comes there by itself; the process
 * connects to an endpoint. Pure.
 */
import { type IpAddress, type IpFamily, isWildcard } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import { leavingAddress } from "./deliver.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet, Passing } from "./packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./path.ts";
import { isLocal } from "./picture.ts";
import type { Traversal } from "./traverse.ts";
import { enter, filterHooks, followOn, passFilter, stoppedEnd, type Walk } from "./walk.ts";

/** A socket that stands for a service port. */
export interface KnownListener {
  readonly family: IpFamily;
  readonly protocol: string;
  /** Unspecified: every address. */
  readonly host: IpAddress;
  readonly port: number;
  /** For what this node sends and rules redirect. */
  readonly portOnLoopback: number;
  readonly backends: readonly RealServerId[];
}

export function followToListener(walk: Walk, listeners: readonly KnownListener[]): PacketPath {
  const { packet, surroundings } = walk;
  const first = enter(walk);
  const { translation } = first;
  if (translation?.kind === "redirect") {
    const { port } = translation;
    const isThere = ({ portOnLoopback, ...at }: KnownListener): boolean =>
      (packet.isFromNode ? portOnLoopback : at.port) === port;
    const listener = listenersFor(packet, listeners).find(isThere);
    return comeIn({ ...walk, first, port, listener });
  }
  const { picture, network } = surroundings;
  const { destination, port } = packet;
  const isHere = isLocal(destination, picture, network) || destination === loopbacks[packet.family];
  const listener = listenersFor(packet, listeners).find(
    (one) => one.port === port && (isWildcard(one.host) || one.host === destination),
  );
  if (!isHere || listener === undefined) return followOn(walk, first);
  return comeIn({ ...walk, first, port, listener });
}

const loopbacks: Readonly<Record<IpFamily, string>> = { IPv4: "127.0.0.1", IPv6: "::1" };

function listenersFor(
  { family, protocol }: Packet,
  listeners: readonly KnownListener[],
): readonly KnownListener[] {
  return listeners.filter((one) => one.family === family && one.protocol === protocol);
}

interface Incoming extends Walk {
  readonly first: Traversal;
  /** Of the socket. */
  readonly port: number;
  readonly listener: KnownListener | undefined;
}

/** Filter may refuse it on its way to the socket. */
function comeIn({ packet, surroundings, first, port, listener }: Incoming): PacketPath {
  const passing: Passing = {
    ...{ packet, port, mark: first.mark },
    destination: packet.isFromNode
      ? (loopbacks[packet.family] as IpAddress)
      : (surroundings.network.routes.get(packet.source)?.source ?? packet.destination),
  };
  const filtered = passFilter(filterHooks(packet, true), passing, surroundings);
  const end: PathEnd =
    listener === undefined
      ? { kind: "unheard", port }
      : { kind: "taken", endpoints: listener.backends.map((one) => connected(one, surroundings)) };
  return { steps: [...first.steps, ...filtered.steps], end: stoppedEnd(filtered) ?? end };
}

/** A connection of this process: the endpoint sees this node. */
function connected(endpoint: RealServerId, surroundings: Surroundings): EndpointPath {
  const source = leavingAddress(endpoint.address, surroundings);
  return {
    ...{ realServer: endpoint, steps: [], isMasqueraded: true },
    fate: "delivered",
    ...(source === undefined ? {} : { source }),
  };
}

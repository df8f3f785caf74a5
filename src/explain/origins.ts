/** Chooses packet sources: one client, or an example of each kind of client that rules distinguish. Pure. */

import type { Destination } from "../answer/answers.ts";
import {
  type Cidr,
  cidrText,
  familyOf,
  type IpAddress,
  type IpFamily,
  parseCidr,
  parseIpAddress,
} from "../base/ip.ts";
import type { Match } from "../state/rule.ts";
import { isHere, type NodeState } from "./packet/node-state.ts";
import type { Packet } from "./packet/packet.ts";

/** A client, or a local process whose source address the kernel chooses. */
export type From = IpAddress | "node";

export interface Origin {
  /** The client or kind of client: `10.244.1.7`, `this node`, `pods (10.244.0.0/16)`, `elsewhere`. */
  readonly label: string;
  readonly packet: Packet;
  /** Whether the packet represents many clients. If so, the route of replies is unknown. */
  readonly isExample: boolean;
}

export interface OriginInput {
  readonly destination: Destination;
  readonly state: NodeState;
  /** The interface on which the client's packets arrive. Default: the interface of the route to the client. */
  readonly inLink?: string;
}

export function originOf(from: From, input: OriginInput): Origin {
  const { destination, state, inLink } = input;
  const { network } = state;
  if (from === "node") {
    return { label: "this node", packet: nodePacket(input), isExample: false };
  }
  const isFromNode = isHere(from, state);
  const route = network.routes.get(from);
  const packet: Packet = {
    ...packetTo(destination),
    source: from,
    isFromNode,
    inLink: isFromNode ? "" : (inLink ?? route?.link ?? ""),
    isBridged:
      !isFromNode &&
      route?.isBridge === true &&
      (inLink ?? route.link) === route.link &&
      network.isBridgeFiltered,
  };
  return { label: from, packet, isExample: false };
}

/** The properties by which rules distinguish clients. */
export interface Distinction {
  /** The match that detects pods. Undefined if rules do not distinguish pods. */
  readonly detector: Match | undefined;
  readonly ranges: readonly Cidr[];
  /** The link through which other nodes forward packets. Undefined without tunnel forwarding. */
  readonly tunnelLink?: string | undefined;
}

/** The sources if no client is given: this node, its pods if rules distinguish them, other hosts, and source ranges. */
export function usualOrigins(
  input: OriginInput,
  { detector, ranges, tunnelLink }: Distinction,
): readonly Origin[] {
  const { destination, state } = input;
  const family = familyOf(destination.address);
  // Other clients are assumed to be behind the default route.
  const outsideLink = state.network.routes.get(outside[family])?.link;
  const example = (label: string, source: IpAddress, inLink = ""): Origin => ({
    label,
    packet: { ...packetTo(destination), source, isFromNode: false, inLink, isBridged: false },
    isExample: true,
  });
  return [
    originOf("node", input),
    ...podOrigin(detector, example, family),
    example("elsewhere", outside[family], outsideLink),
    ...(tunnelLink === undefined
      ? []
      : [example(`other nodes, through ${tunnelLink}`, outside[family], tunnelLink)]),
    ...ranges.map((range) =>
      example(`${cidrText(range)} (a source range)`, range.address, outsideLink),
    ),
  ];
}

/** Addresses reserved for documentation, which no host uses (RFC 5737, RFC 3849). */
export const outside: Readonly<Record<IpFamily, IpAddress>> = {
  IPv4: parseIpAddress("192.0.2.1") as IpAddress,
  IPv6: parseIpAddress("2001:db8::1") as IpAddress,
};

function podOrigin(
  detector: Match | undefined,
  example: (label: string, source: IpAddress, inLink?: string) => Origin,
  family: IpFamily,
): readonly Origin[] {
  if (detector?.kind === "in-interface") {
    return [example(`pods (behind ${detector.name})`, outside[family], linkOf(detector.name))];
  }
  const cidr = detector?.kind === "source" ? parseCidr(detector.cidr) : undefined;
  return cidr === undefined ? [] : [example(`pods (${cidrText(cidr)})`, cidr.address)];
}

/** Returns an interface name that matches the pattern: `cni0` for `cni+`. */
function linkOf(pattern: string): string {
  return pattern.replace(/\+$/, "0");
}

/** When a process sends to one of this node's addresses, the packet's source is that same address. */
function nodePacket({ destination, state }: OriginInput): Packet {
  const { address } = destination;
  const source = isHere(address, state)
    ? address
    : (state.network.routes.get(address)?.source ?? address);
  return { ...packetTo(destination), source, isFromNode: true, inLink: "", isBridged: false };
}

function packetTo({
  protocol,
  address,
  port,
}: Destination): Pick<Packet, "family" | "protocol" | "destination" | "port"> {
  return { family: familyOf(address), protocol, destination: address, port };
}

/** Describes the verdict in one sentence. Pure. */

import type { Destination } from "../answer/answers.ts";
import { counted } from "../base/counted.ts";
import { hostPort } from "../base/ip.ts";
import type { Origin } from "./origins.ts";
import { byText } from "./packet/deliver.ts";
import type { Packet } from "./packet/packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./packet/path.ts";

/** A sentence such as `Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 3 of 4 endpoints and not masqueraded`. */
export function packetSummary(
  { end }: PacketPath,
  { label, packet }: Pick<Origin, "label" | "packet">,
  endpointCount: number,
): string {
  const { protocol, destination: address, port } = packet;
  const name = destinationText({ protocol, address, port });
  return `Packets from ${label} to ${name} ${fateText(end, packet, endpointCount)}`;
}

/** Formats a destination: `10.96.0.10:53/udp`. Omits the protocol if it is TCP. */
export function destinationText({ protocol, address, port }: Destination): string {
  if (protocol === "ICMP") return `${address}/icmp`;
  return `${hostPort(address, port)}${protocol === "TCP" ? "" : `/${protocol.toLowerCase()}`}`;
}

function fateText(end: PathEnd, packet: Packet, endpointCount: number): string {
  switch (end.kind) {
    case "balanced":
      return `${balancedText(end, endpointCount)}${restText(end.rest, packet, endpointCount)}`;
    case "taken":
      return takenText(end.endpoints, packet, endpointCount);
    case "unheard":
      return `are redirected to port ${end.port} of this node, where kube-ipvs does not listen`;
    case "no-endpoint":
      return "are refused: the virtual server has no real server that accepts connections";
    case "refused":
    case "dropped":
      return `are ${end.kind}${byText(end.by)}`;
    case "node":
      return "reach this node itself, not a Service";
    case "forwarded":
      return end.link === undefined
        ? `are not delivered: ${packet.destination} is not an address of this node, and there is no route to it`
        : `are routed on through ${end.link}: ${packet.destination} is not an address of this node`;
  }
}

function balancedText(
  { endpoints, isByIpvs }: Extract<PathEnd, { readonly kind: "balanced" }>,
  endpointCount: number,
): string {
  const delivered = endpoints.filter(({ fate }) => fate === "delivered");
  if (delivered.length === 0) {
    const [first] = endpoints;
    const why = first === undefined ? "" : whyText(first);
    const where = isByIpvs ? "behind IPVS" : "on their way to the endpoint";
    return `are ${first?.fate ?? "dropped"} ${where}${why}`;
  }
  const nodes = endpoints.filter(({ isTunneled }) => isTunneled === true);
  if (nodes.length > 0) return tunneledText(endpoints, nodes, delivered);
  const over = `are balanced over ${countText(endpoints, endpointCount)}`;
  const stopped = stoppedText(endpoints);
  return `${over} and ${masqueradedText(delivered)}${stopped}${unansweredText(delivered)}`;
}

/** Text such as `are tunneled to 2 nodes (192.168.10.13, 192.168.10.14) or go to 1 endpoint here, not masqueraded`. */
function tunneledText(
  all: readonly EndpointPath[],
  nodes: readonly EndpointPath[],
  delivered: readonly EndpointPath[],
): string {
  const names = nodes.map(({ realServer: { address } }) => address).sort();
  const here = all.length - nodes.length;
  const others = here === 0 ? "" : ` or go to ${counted(here, "endpoint")} here`;
  const to = `are tunneled to ${counted(nodes.length, "node")} (${names.join(", ")})`;
  return `${to}${others}, ${masqueradedText(delivered)}${stoppedText(all)}${unansweredText(delivered)}`;
}

/** Describes the endpoints whose packets are lost, if packets to other endpoints arrive. */
function stoppedText(endpoints: readonly EndpointPath[]): string {
  const stopped = endpoints.filter(({ fate }) => fate !== "delivered");
  const [first] = stopped;
  if (first === undefined) return "";
  return `, but packets to ${stopped.length} of them are ${first.fate}${whyText(first)}`;
}

function whyText({ obstacle, steps }: EndpointPath): string {
  return obstacle === undefined ? byText(steps.at(-1)) : `: ${obstacle}`;
}

/** Counts the endpoints that get packets: `2 of 3 endpoints`. */
function countText({ length }: readonly EndpointPath[], endpointCount: number): string {
  const of = Math.max(endpointCount, length);
  return `${length} of ${of} endpoint${of === 1 ? "" : "s"}`;
}

/** Describes packets for which no rule chooses an endpoint, although one should. */
function restText(rest: PathEnd | undefined, packet: Packet, endpointCount: number): string {
  return rest === undefined
    ? ""
    : `; packets that no rule directs to an endpoint ${fateText(rest, packet, endpointCount)}`;
}

/** Describes packets to a kube-ipvs socket. Without endpoints, kube-ipvs resets TCP connections after accepting them. */
function takenText(
  endpoints: readonly EndpointPath[],
  { protocol }: Packet,
  endpointCount: number,
): string {
  if (endpoints.length > 0) {
    return `are handled by kube-ipvs and balanced over ${countText(endpoints, endpointCount)}`;
  }
  const end = protocol === "TCP" ? "reset" : "lost";
  return `are handled by kube-ipvs and ${end}: no endpoint accepts connections`;
}

function masqueradedText(endpoints: readonly EndpointPath[]): string {
  const count = endpoints.filter(({ isMasqueraded }) => isMasqueraded).length;
  if (count === 0) return "not masqueraded";
  return count === endpoints.length ? "masqueraded" : `masqueraded to ${count} of them`;
}

function unansweredText(endpoints: readonly EndpointPath[]): string {
  const silent = endpoints.filter(({ obstacle }) => obstacle !== undefined);
  if (silent.length === 0) return "";
  const whose =
    silent.length === endpoints.length ? "the replies" : `replies from ${silent.length} of them`;
  return `, but ${whose} are lost: ${silent[0]?.obstacle}`;
}

/** The verdict in one sentence. Pure. */
import { hostPort } from "../base/ip.ts";
import type { PacketInput } from "./explain-packet.ts";
import type { Origin } from "./origins.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./packet/follow-packet.ts";
import type { Packet } from "./packet/packet.ts";
import type { Step } from "./packet/traverse.ts";

/** `Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 3 of 4 endpoints and not masqueraded`. */
export function packetSummary(
  { end }: PacketPath,
  { label, packet }: Pick<Origin, "label" | "packet">,
  input: Pick<PacketInput, "endpointCount">,
): string {
  return `Packets from ${label} to ${destinationText(packet)} ${fateText(end, packet, input)}`;
}

/** `10.96.0.10:53/udp`; TCP is not named. */
export function destinationText({
  protocol,
  destination,
  port,
}: Pick<Packet, "protocol" | "destination" | "port">): string {
  if (protocol === "ICMP") return `${destination}/icmp`;
  return `${hostPort(destination, port)}${protocol === "TCP" ? "" : `/${protocol.toLowerCase()}`}`;
}

function fateText(end: PathEnd, packet: Packet, input: Pick<PacketInput, "endpointCount">): string {
  switch (end.kind) {
    case "balanced":
      return balancedText(end.endpoints, input);
    case "no-endpoint":
      return "are refused: the virtual server has no real server that takes connections";
    case "refused":
    case "dropped":
      return `are ${end.kind}${byText(end.by)}`;
    case "node":
      return "reach this node itself, and no Service";
    case "forwarded":
      return end.link === undefined
        ? `go nowhere: ${packet.destination} is not an address of this node, and there is no route to it`
        : `are routed on through ${end.link}: ${packet.destination} is not an address of this node`;
  }
}

function byText(step: Step | undefined): string {
  return step === undefined ? "" : ` by ${step.table} ${step.chain}: ${step.rule}`;
}

function balancedText(
  endpoints: readonly EndpointPath[],
  { endpointCount }: Pick<PacketInput, "endpointCount">,
): string {
  const delivered = endpoints.filter(({ fate }) => fate === "delivered");
  if (delivered.length === 0) {
    const [first] = endpoints;
    return `are ${first?.fate ?? "dropped"} behind IPVS${byText(first?.steps.at(-1))}`;
  }
  const of = Math.max(endpointCount, endpoints.length);
  const over = `are balanced over ${endpoints.length} of ${of} endpoint${of === 1 ? "" : "s"}`;
  return `${over} and ${masqueradedText(delivered)}${unansweredText(delivered)}`;
}

function masqueradedText(endpoints: readonly EndpointPath[]): string {
  const count = endpoints.filter(({ isMasqueraded }) => isMasqueraded).length;
  if (count === 0) return "not masqueraded";
  return count === endpoints.length ? "masqueraded" : `masqueraded to ${count} of them`;
}

function unansweredText(endpoints: readonly EndpointPath[]): string {
  const silent = endpoints.filter(({ obstacle }) => obstacle !== undefined);
  if (silent.length === 0) return "";
  const whose = silent.length === endpoints.length ? "the" : `${silent.length} of the`;
  return `, but ${whose} answers get lost: ${silent[0]?.obstacle}`;
}

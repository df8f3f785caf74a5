/** One address, port and protocol: who is served there, from where, and what is wrong. Pure. */

import type { Destination, ServiceRow } from "../answer/answers.ts";
import type { Connections, Explanation, PacketExplanation } from "../answer/explanation.ts";
import { cidrText, hostPort, isLoopback } from "../base/ip.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import { explainPacket } from "./explain-packet.ts";
import type { ExplainedMode } from "./modes/mode.ts";
import { type From, originOf, usualOrigins } from "./origins.ts";
import type { NodeNetwork, Picture } from "./packet/picture.ts";
import { destinationText } from "./verdict-text.ts";

export interface DestinationInput {
  readonly destination: Destination;
  readonly mode: ExplainedMode;
  readonly services: readonly ServiceRow[];
  readonly planned: Picture;
  readonly observed: Picture;
  readonly network: NodeNetwork;
  /** If undefined, packets of every kind match. */
  readonly from?: From;
  readonly connections: Connections;
}

export function explainDestination(input: DestinationInput): Explanation {
  const { destination, mode, services, planned, observed, network, from, connections } = input;
  const key = virtualServerKey(destination);
  const rows = services.filter((row) => virtualServerKey(row) === key);
  const row = rows.find(({ reason }) => reason !== lostClaim);
  const ranges = mode.sourceRanges(destination, [planned, observed]);
  const endpoints = row?.endpoints ?? [];
  const packetInput = {
    ...{ mode, planned, observed, network, ranges },
    onNode: new Set(
      endpoints
        .filter(({ local }) => local === true)
        .map(({ address, port }) => hostPort(address, port)),
    ),
    endpointCount: endpoints.filter(({ ready }) => ready !== undefined).length,
  };
  const originInput = { destination, picture: observed, network };
  // Nobody else gets to a loopback address.
  const only = from ?? (isLoopback(destination.address) ? "node" : undefined);
  const origins =
    only === undefined
      ? usualOrigins(originInput, { detector: mode.localDetector(planned), ranges })
      : [originOf(only, originInput)];
  const packets = origins.map((origin) => explainPacket(origin, packetInput));
  const virtualServer = observed.servers.get(key)?.virtualServer;
  return {
    ...destination,
    mode: mode.name,
    verdict: worstOf(packets),
    summary: summaryOf(packets, destination, row),
    ...(row === undefined ? {} : { service: serviceOf(row) }),
    losers: rows
      .filter(({ reason }) => reason === lostClaim)
      .map(({ namespace, name }) => `${namespace}/${name}`),
    ...(virtualServer === undefined ? {} : { virtualServer }),
    sourceRanges: ranges.map(cidrText),
    endpoints,
    packets,
    differences: mode.differences({ planned, observed, network, destination }),
    connections,
  };
}

const lostClaim = "claimed-by-another-service";

function serviceOf(row: ServiceRow): NonNullable<Explanation["service"]> {
  const { namespace, name, portName, frontend, trafficPolicy, affinitySeconds } = row;
  return {
    ...{ namespace, name },
    ...(portName === undefined ? {} : { portName }),
    ...{ frontend, trafficPolicy, affinitySeconds },
  };
}

const severity: readonly Explanation["verdict"][] = [
  "balanced",
  "refused",
  "dropped",
  "node",
  "forwarded",
];

/** Served is what anybody is served. */
function worstOf(packets: readonly PacketExplanation[]): Explanation["verdict"] {
  return severity.find((verdict) => packets.some((packet) => packet.verdict === verdict)) ?? "node";
}

/** Of one client the sentence about it; of many what they have in common, and for whom it differs. */
function summaryOf(
  packets: readonly PacketExplanation[],
  destination: Destination,
  row: ServiceRow | undefined,
): string {
  const [first] = packets;
  if (first === undefined || packets.length === 1) return first?.summary ?? "";
  const name = destinationText(destination);
  const groups = new Map<string, string[]>();
  for (const { from, summary } of packets) {
    const fate = summary.slice(`Packets from ${from} to ${name} `.length);
    groups.set(fate, [...(groups.get(fate) ?? []), from]);
  }
  const service = row === undefined ? "" : ` (${row.namespace}/${row.name}, ${row.frontend})`;
  if (groups.size === 1) return `Packets to ${name}${service} ${[...groups.keys()].join("")}`;
  const texts = [...groups].map(([fate, froms], index) => {
    const they = index === 0 ? "" : "they ";
    return `from ${froms.join(" and from ")} ${they}${fate}`;
  });
  return `Packets to ${name}${service} ${texts.join("; ")}`;
}

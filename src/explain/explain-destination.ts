/** Explains one address, port and protocol: its Service, the clients that can reach it, and any faults. Pure. */

import type { ConflictNote, Destination, PlanFacts } from "../answer/answers.ts";
import type { Connections, Explanation, PacketExplanation } from "../answer/explanation.ts";
import { staleEntries } from "../answer/explanation-advice.ts";
import { lostReason } from "../answer/reasons.ts";
import { type ServiceRow, serverKeyOf } from "../answer/rows.ts";
import { familyOf, isLoopback, parseCidr } from "../base/ip.ts";
import { chainKey, type Match } from "../state/rule.ts";
import { serves } from "../state/served-range.ts";
import { tunnelLinks } from "../state/tunnel-link.ts";
import { differencesOf } from "./differences.ts";
import { explainPacket } from "./explain-packet.ts";
import { type From, originOf, usualOrigins } from "./origins.ts";
import { type NodeState, plannedServerKey } from "./packet/node-state.ts";
import { destinationText } from "./verdict-text.ts";

export interface DestinationInput {
  readonly destination: Destination;
  readonly mode: PlanFacts["mode"];
  readonly services: readonly ServiceRow[];
  readonly planned: NodeState;
  readonly observed: NodeState;
  /** If undefined, packets of every kind are explained. */
  readonly from?: From;
  /** The link on which packets from `from` arrive. */
  readonly inLink?: string;
  readonly connections: Connections;
  readonly conflicts: readonly ConflictNote[];
}

export function explainDestination(input: DestinationInput): Explanation {
  const { destination, mode, services, from, connections } = input;
  const key = plannedServerKey(input.planned, destination);
  const rows = services.filter((row) => serverKeyOf(row) === key);
  const row = rows.find(({ reason }) => reason !== lostReason);
  const sourceRanges = row?.sourceRanges ?? [];
  const ranges = sourceRanges.flatMap((text) => parseCidr(text) ?? []);
  const endpoints = row?.endpoints ?? [];
  const local = endpoints.filter((endpoint) => endpoint.local === true);
  const onNode = new Set(local.map(({ address }) => address));
  const planned = { ...input.planned, onNode };
  const observed = { ...input.observed, onNode };
  const endpointCount = endpoints.filter(({ ready }) => ready !== undefined).length;
  const { inLink } = input;
  const originInput = { destination, state: observed, ...(inLink === undefined ? {} : { inLink }) };
  // Only local processes can reach a loopback address.
  const only = from ?? (isLoopback(destination.address) ? "node" : undefined);
  const origins =
    only === undefined
      ? usualOrigins(originInput, {
          ...{ detector: podDetector(planned), ranges },
          tunnelLink: isServedThroughTunnel(planned, destination)
            ? tunnelLinks[familyOf(destination.address)].name
            : undefined,
        })
      : [originOf(only, originInput)];
  const isRemembered = connections.templates.length > 0;
  const stale = staleEntries({ ...destination, mode, endpoints, connections });
  const packetInput = { planned, observed, ranges, endpointCount, isRemembered, stale };
  const packets = origins.map((origin) => explainPacket(origin, packetInput));
  const virtualServer = observed.servers.get(key)?.virtualServer;
  return {
    ...destination,
    mode,
    verdict: worstOf(packets),
    summary: summaryOf(packets, destination, row),
    ...(row === undefined ? {} : { service: serviceOf(row) }),
    losers: rows
      .filter(({ reason }) => reason === lostReason)
      .map(({ namespace, name }) => `${namespace}/${name}`),
    conflicts: input.conflicts.map(
      ({ service, message, remedy }) => `${service}: ${message}; ${remedy}`,
    ),
    ...(virtualServer === undefined ? {} : { virtualServer }),
    sourceRanges,
    endpoints,
    packets,
    differences: differencesOf({ planned, observed, destination, mode }),
    connections,
  };
}

function isServedThroughTunnel({ servers }: NodeState, destination: Destination): boolean {
  return [...servers.values()].some(
    ({ range }) => range?.tunnel?.end === "in" && serves(range, destination),
  );
}

/** The match by which Service rules detect this node's pods. Undefined if they do not detect pods. */
function podDetector({ chains }: NodeState): Match | undefined {
  for (const [key, rules] of chains) {
    const isOfService = /^nat KUBE-(?:SVC|SVL|EXT)-/.test(key);
    if (!isOfService && key !== chainKey("nat", "KUBE-SERVICES")) continue;
    const found = rules
      .flatMap(({ rule }) => rule?.matches ?? [])
      .find(
        (match) =>
          (match.kind === "source" || match.kind === "in-interface") &&
          (isOfService || match.isNegated),
      );
    if (found !== undefined) return found;
  }
  return undefined;
}

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

/** Returns the first verdict in the order of {@link severity}, which is `balanced` if any client is served. */
function worstOf(packets: readonly PacketExplanation[]): Explanation["verdict"] {
  return severity.find((verdict) => packets.some((packet) => packet.verdict === verdict)) ?? "node";
}

/** Returns the sentence about one client, or combines the sentences about several clients by outcome. */
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

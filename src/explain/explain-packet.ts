/** Describes what happens to packets from one client. Pure. */

import type {
  DeliveryGroup,
  PacketExplanation,
  PacketLoss,
  PathStep,
  TrackedConnection,
  Verdict,
} from "../answer/explanation.ts";
import { type Cidr, hostPort } from "../base/ip.ts";
import { realServerKey } from "../state/real-server.ts";
import { chainKey, isTableName } from "../state/rule.ts";
import { toServerKey, virtualServerKey } from "../state/virtual-server.ts";
import { masqueradeText, sourceRangeText } from "./masquerade-text.ts";
import type { Origin } from "./origins.ts";
import { isFull } from "./packet/connection-limit.ts";
import { byText } from "./packet/deliver.ts";
import { staleDoubts } from "./packet/doubts.ts";
import { follow } from "./packet/follow.ts";
import { hashedServer } from "./packet/hashed-server.ts";
import type { ListedServer, NodeState } from "./packet/node-state.ts";
import type { Packet } from "./packet/packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./packet/path.ts";
import type { Step } from "./packet/traverse.ts";
import { packetSummary } from "./verdict-text.ts";

export interface PacketInput {
  readonly planned: NodeState;
  readonly observed: NodeState;
  /** Number of endpoints, ready or not, for texts such as "3 of 4 endpoints". */
  readonly endpointCount: number;
  /** Whether IPVS remembers the client's real server and therefore does not ask the scheduler. */
  readonly isRemembered: boolean;
  /** Source ranges of this address and port. If empty, all clients are allowed. */
  readonly ranges: readonly Cidr[];
  /** Conntrack entries that lead clients to an address that is not an endpoint. */
  readonly stale: readonly TrackedConnection[];
}

/** Describes what the kernel does and, if it differs, what the planned state would do. */
export function explainPacket(origin: Origin, input: PacketInput): PacketExplanation {
  const { packet, label } = origin;
  const { planned, observed, ranges, endpointCount } = input;
  const found = pathIn(observed, origin, input);
  const stale = input.stale.filter(({ client }) => origin.isExample || isOf(client, packet));
  const path = { ...found, steps: [...staleDoubts(packet, stale), ...found.steps] };
  const summary = `${packetSummary(path, origin, endpointCount)}${foreignText(path, planned)}`;
  const plannedSummary = packetSummary(pathIn(planned, origin, input), origin, endpointCount);
  const masquerading = masqueradeText(path, observed.network);
  const { scheduled } = path.end.kind === "balanced" ? path.end : {};
  return {
    from: label,
    source: packet.source,
    ...(packet.inLink === "" ? {} : { inLink: packet.inLink }),
    verdict: verdictOf(path.end, packet),
    summary: `${summary}${doubtText(path)}`,
    losses: lossesOf(path.end, planned),
    ...(plannedSummary === summary ? {} : { planned: plannedSummary }),
    ...(ranges.length === 0 ? {} : { sourceRange: sourceRangeText(packet, ranges, observed) }),
    ...(masquerading === undefined ? {} : { masquerading }),
    ...(scheduled === undefined ? {} : { scheduled: hostPort(scheduled.address, scheduled.port) }),
    path: path.steps
      .map((step) => pathStep(step, planned))
      .filter((step) => step.table !== "IPVS" || !step.isPlanned),
    deliveries: groupsOf(endpointsOf(path.end), planned),
  };
}

function isOf(client: string, { source }: Packet): boolean {
  return client.replace(/:\d+$/, "").replaceAll(/[[\]]/g, "") === source;
}

/** Names another program's virtual server if the packet's mark selects it. */
function foreignText({ steps }: PacketPath, { servers }: NodeState): string {
  const step = steps.find(
    ({ table, chain }) => table === "IPVS" && !servers.has(toServerKey(chain)),
  );
  return step === undefined ? "" : `, by other software's virtual server ${step.chain}`;
}

/** Names the first reason for uncertainty: `; uncertain because of ip rule fwmark 0x1/0x1: lookup 100`. */
function doubtText({ steps, end }: PacketPath): string {
  const all = [...steps, ...endpointsOf(end).flatMap((endpoint) => endpoint.steps)];
  const texts = new Set(
    all
      .filter(({ isMaybe }) => isMaybe)
      .map(({ table, chain, rule }) => `${table} ${chain}: ${rule}`),
  );
  const [first] = texts;
  const more = texts.size > 1 ? ` and ${texts.size - 1} more` : "";
  return first === undefined ? "" : `; uncertain because of ${first}${more}`;
}

/** The packets that are lost because of unplanned rules, missing routes or the kernel's own checks. */
function lossesOf(end: PathEnd, planned: NodeState): readonly PacketLoss[] {
  const stops: readonly Stop[] =
    "by" in end
      ? [{ fate: end.kind, by: end.by }]
      : endpointsOf(end).map(({ fate, steps, obstacle }) => ({ fate, by: steps.at(-1), obstacle }));
  const losses = stops.flatMap(({ fate, by, obstacle }): readonly PacketLoss[] => {
    if (fate === "delivered") return [];
    if (obstacle !== undefined) return [{ cause: `are lost: ${obstacle}`, isCertain: true }];
    const isPlanned = typeof by === "object" && pathStep(by, planned).isPlanned;
    if (by === undefined || isPlanned) return [];
    const isCertain = typeof by === "string" || by.unless === undefined;
    return [{ cause: `are ${fate}${byText(by)}`, isCertain }];
  });
  return [...new Map(losses.map((loss) => [loss.cause, loss])).values()];
}

interface Stop extends Pick<EndpointPath, "fate"> {
  readonly by: Step | string | undefined;
  readonly obstacle?: string | undefined;
}

function pathIn(
  state: NodeState,
  { packet, isExample }: Origin,
  { observed, isRemembered }: PacketInput,
): PacketPath {
  const path = inOrder(follow(packet, state));
  if (isExample) return withoutObstacles(path);
  return isRemembered ? path : withScheduled(path, packet, { state, observed });
}

/** Sorts the endpoints, because texts name the first one, and the kernel lists real servers in another order than the plan. */
function inOrder({ steps, end }: PacketPath): PacketPath {
  if (end.kind !== "balanced") return { steps, end };
  return { steps, end: { ...end, endpoints: end.endpoints.toSorted(byRealServer) } };
}

/** Adds the endpoint that IPVS chooses for the client, if the scheduler's choice can be predicted. */
function withScheduled(
  path: PacketPath,
  packet: Packet,
  { state, observed }: { readonly state: NodeState; readonly observed: NodeState },
): PacketPath {
  const { protocol, destination: address, port } = packet;
  const { end } = path;
  if (end.kind !== "balanced" || !end.isByIpvs) return path;
  const key = virtualServerKey({ protocol, address, port });
  const server = inOrderOf(observed.servers.get(key), state.servers.get(key));
  // Packets with a mark may be balanced by a different virtual server.
  const known = new Set(server?.realServers.map(realServerKey));
  if (end.endpoints.some(({ realServer }) => !known.has(realServerKey(realServer)))) return path;
  const scheduled = server && hashedServer(server, packet);
  if (server === undefined || scheduled === undefined) return path;
  const full = isFull(scheduled) === true;
  if (scheduled.weight > 0 && !full) return { ...path, end: { ...end, scheduled } };
  const name = hostPort(scheduled.address, scheduled.port);
  const why = full ? "it has reached its connection limit" : "its weight is 0";
  const by = `by the scheduler ${server.virtualServer.scheduler}, which chooses ${name} although ${why}`;
  return { ...path, end: { kind: "refused", by } };
}

/**
 * The virtual server with its real servers in the kernel's order. Undefined if the kernel has different real servers.
 */
function inOrderOf(
  observed: ListedServer | undefined,
  server: ListedServer | undefined,
): ListedServer | undefined {
  if (observed === server || observed === undefined || server === undefined) return server;
  const byKey = new Map(server.realServers.map((one) => [realServerKey(one), one]));
  const realServers = observed.realServers.flatMap((one) => byKey.get(realServerKey(one)) ?? []);
  const { length } = observed.realServers;
  return realServers.length === length && byKey.size === length
    ? { ...server, realServers }
    : undefined;
}

/** Omits obstacles to replies, because an example packet represents many clients, whose replies' route is unknown. */
function withoutObstacles({ steps, end }: PacketPath): PacketPath {
  if (end.kind !== "balanced") return { steps, end };
  const endpoints = end.endpoints.map(({ obstacle, ...path }) =>
    path.fate === "delivered" || obstacle === undefined ? path : { ...path, obstacle },
  );
  return { steps, end: { ...end, endpoints } };
}

function verdictOf(end: PathEnd, { protocol }: Packet): Verdict {
  switch (end.kind) {
    case "no-endpoint":
    case "unheard":
      return "refused";
    case "balanced":
      return ofEndpoints(end.endpoints);
    // If there are no endpoints, TCP clients see a reset, and UDP clients get no reply.
    case "taken":
      if (end.endpoints.length > 0) return "balanced";
      return protocol === "TCP" ? "refused" : "dropped";
    default:
      return end.kind;
  }
}

/** Returns `balanced` if any endpoint gets the packets. */
function ofEndpoints(endpoints: readonly EndpointPath[]): Verdict {
  const fates = new Set(endpoints.map(({ fate }) => fate));
  if (fates.has("delivered")) return "balanced";
  return fates.has("refused") ? "refused" : "dropped";
}

function endpointsOf(end: PathEnd): readonly EndpointPath[] {
  return end.kind === "balanced" || end.kind === "taken" ? end.endpoints : [];
}

function pathStep(
  { entries, rule, unless: _, isMaybe, ...place }: Step,
  planned: NodeState,
): PathStep {
  const { table, chain } = place;
  const rules = isTableName(table) ? (planned.chains.get(chainKey(table, chain)) ?? []) : [];
  const isServer = place.table === "IPVS" && planned.servers.has(toServerKey(place.chain));
  const isRule = isServer || rules.some(({ text }) => text === rule);
  const isEntry = entries.every(({ set, entry }) => planned.sets.get(set)?.entries.has(entry));
  return {
    ...place,
    rule,
    ...(entries.length === 0 ? {} : { entry: entries.map(({ entry }) => entry).join(" ") }),
    isPlanned: isRule && isEntry,
    ...(isMaybe === true ? { isMaybe } : {}),
  };
}

/** Groups endpoints whose packets take the same path, apart from the rules that choose the endpoint. */
function groupsOf(
  endpoints: readonly EndpointPath[],
  planned: NodeState,
): readonly DeliveryGroup[] {
  const groups = new Map<string, DeliveryGroup & { readonly realServers: string[] }>();
  for (const endpoint of endpoints) {
    const { realServer, choice = [], steps, fate, isMasqueraded, source, obstacle } = endpoint;
    const { isTunneled } = endpoint;
    const chosenBy = choice.map((step) => pathStep(step, planned));
    const group = {
      path: steps.map((step) => pathStep(step, planned)),
      ...{ fate, isMasqueraded },
      ...(source === undefined ? {} : { seenSource: source }),
      ...(obstacle === undefined ? {} : { obstacle }),
    };
    const isChosenAsPlanned = chosenBy.every(({ isPlanned }) => isPlanned);
    const key = JSON.stringify([group, isChosenAsPlanned, isTunneled]);
    const path = [...chosenBy, ...group.path];
    const same = groups.get(key) ?? { realServers: [], ...group, path };
    groups.set(key, same);
    const { address, port } = realServer;
    same.realServers.push(isTunneled === true ? `node ${address}` : hostPort(address, port));
  }
  return [...groups.values()];
}

function byRealServer(one: EndpointPath, other: EndpointPath): number {
  return realServerKey(one.realServer) < realServerKey(other.realServer) ? -1 : 1;
}

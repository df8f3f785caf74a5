/** What becomes of packets of one client, in words. Pure. */
import { type Cidr, cidrContains, cidrText, hostPort } from "../base/ip.ts";
import type { DeliveryGroup, PacketExplanation, PathStep, Verdict } from "./explanation.ts";
import type { Origin } from "./origins.ts";
import {
  type EndpointPath,
  type EndpointsOnNode,
  followPacket,
  type PacketPath,
  type PathEnd,
} from "./packet/follow-packet.ts";
import type { Packet } from "./packet/packet.ts";
import { chainKey, type NodeNetwork, type Picture } from "./packet/picture.ts";
import type { Step } from "./packet/traverse.ts";
import { packetSummary } from "./verdict-text.ts";

export interface PacketInput {
  readonly planned: Picture;
  readonly observed: Picture;
  readonly network: NodeNetwork;
  readonly onNode: EndpointsOnNode;
  /** Ready or not: "3 of 4" counts them. */
  readonly endpointCount: number;
  /** For this address and port; empty: everybody is let in. */
  readonly ranges: readonly Cidr[];
}

/** What the kernel does, and what the plan would do where that differs. */
export function explainPacket(origin: Origin, input: PacketInput): PacketExplanation {
  const { packet, label } = origin;
  const path = pathIn(input.observed, origin, input);
  const summary = packetSummary(path, origin, input);
  const planned = packetSummary(pathIn(input.planned, origin, input), origin, input);
  const sourceRange = rangeText(packet, input.ranges);
  const masquerading = masqueradeText(path, input.network);
  return {
    from: label,
    source: packet.source,
    ...(packet.inLink === "" ? {} : { inLink: packet.inLink }),
    verdict: verdictOf(path.end),
    summary,
    ...(planned === summary ? {} : { planned }),
    ...(sourceRange === undefined ? {} : { sourceRange }),
    ...(masquerading === undefined ? {} : { masquerading }),
    path: path.steps.map((step) => pathStep(step, input.planned)),
    deliveries: path.end.kind === "balanced" ? groupsOf(path.end.endpoints, input.planned) : [],
  };
}

function pathIn(picture: Picture, origin: Origin, input: PacketInput): PacketPath {
  const { network, onNode } = input;
  const path = followPacket(origin.packet, { picture, network }, onNode);
  return origin.isExample ? withoutObstacles(path) : path;
}

/** Where an example stands for many clients, nobody knows how their answers go. */
function withoutObstacles({ steps, end }: PacketPath): PacketPath {
  if (end.kind !== "balanced") return { steps, end };
  const endpoints = end.endpoints.map(({ obstacle, ...path }) => path);
  return { steps, end: { ...end, endpoints } };
}

export function verdictOf({ kind }: PathEnd): Verdict {
  return kind === "no-endpoint" ? "refused" : kind;
}

/** `192.168.20.1/32 lets 192.168.20.1 in`. */
function rangeText({ source, isFromNode }: Packet, ranges: readonly Cidr[]): string | undefined {
  if (ranges.length === 0) return undefined;
  const all = ranges.map(cidrText).join(", ");
  // Its own address is the virtual one there; what counts is the address by which the cluster knows the node.
  if (isFromNode) return `this node gets in where one of ${all} holds its node address`;
  const range = ranges.find((one) => cidrContains(one, source));
  return range === undefined
    ? `${source} is in none of ${all}`
    : `${cidrText(range)} lets ${source} in`;
}

function masqueradeText({ steps, end }: PacketPath, network: NodeNetwork): string | undefined {
  if (end.kind !== "balanced") return undefined;
  const mark = steps.find(({ rule }) => rule.endsWith("-j KUBE-MARK-MASQ"));
  if (!network.isIpvsTracked) return "none: net.ipv4.vs.conntrack is 0";
  const hairpin = end.endpoints
    .flatMap((endpoint) => endpoint.steps)
    .find(({ rule }) => rule.includes("LOOP-BACK"));
  if (hairpin !== undefined) return `to itself: ${hairpin.entry} is in KUBE-LOOP-BACK`;
  if (mark === undefined) return "none: no rule marks the packet";
  const isDone = end.endpoints.some(({ isMasqueraded }) => isMasqueraded);
  const without = isDone ? "" : "none, although ";
  return `${without}marked in ${chainKey(mark.table, mark.chain)}: ${mark.rule}`;
}

function pathStep({ entry, rule, ...place }: Step, planned: Picture): PathStep {
  const rules = planned.chains.get(chainKey(place.table, place.chain)) ?? [];
  const isRule = rules.some(({ text }) => text === rule);
  const isEntry = (entry?.split(" ") ?? []).every((one) =>
    [...planned.sets.values()].some(({ entries }) => (entries as ReadonlySet<string>).has(one)),
  );
  return {
    ...place,
    rule,
    ...(entry === undefined ? {} : { entry }),
    isPlanned: isRule && isEntry,
  };
}

/** Endpoints whose packets take the same way are shown together. */
function groupsOf(endpoints: readonly EndpointPath[], planned: Picture): readonly DeliveryGroup[] {
  const groups = new Map<string, DeliveryGroup & { readonly realServers: string[] }>();
  for (const { realServer, steps, fate, isMasqueraded, source, obstacle } of endpoints) {
    const group = {
      path: steps.map((step) => pathStep(step, planned)),
      ...{ fate, isMasqueraded },
      ...(source === undefined ? {} : { seenSource: source }),
      ...(obstacle === undefined ? {} : { obstacle }),
    };
    const key = JSON.stringify(group);
    const same = groups.get(key) ?? { realServers: [], ...group };
    groups.set(key, same);
    same.realServers.push(hostPort(realServer.address, realServer.port));
  }
  return [...groups.values()];
}

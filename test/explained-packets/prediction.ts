/** What an explanation predicts for a packet, and what happened to the packet, in the same terms. */
import type {
  DeliveryGroup,
  Explanation,
  PacketExplanation,
} from "../../src/answer/explanation.ts";
import { type Addresses, guests, node, node2 } from "../packet-paths/places.ts";
import type { Outcome } from "../packet-paths/probe.ts";
import { hostPort, ownPort, podPort } from "../packet-paths/services.ts";
import type { Tuple } from "./scene.ts";

export interface Prediction {
  /** What the explanation could not evaluate. Empty if it is certain. */
  readonly doubts: readonly string[];
  /** For example `local←192.168.10.11`, `refused`, `dropped`. `?` stands for any source. */
  readonly outcomes: ReadonlySet<string>;
}

/** `deadPlaces` do not answer, which no rule or route shows. */
export function predictionOf(
  explanation: Explanation,
  tuple: Tuple,
  deadPlaces: readonly string[],
): Prediction {
  const packet = explanation.packets.at(-1);
  return {
    doubts: explanation.packets.flatMap(doubtsOf),
    outcomes: new Set(
      (packet === undefined ? [] : outcomesOf(explanation, packet, tuple, deadPlaces)).map(
        (outcome) => (deadPlaces.includes(outcome.replace(/←.*/, "")) ? "dropped" : outcome),
      ),
    ),
  };
}

function doubtsOf({ path, deliveries, losses }: PacketExplanation): readonly string[] {
  const steps = [...path, ...deliveries.flatMap((one) => one.path)];
  return [
    ...steps.flatMap(({ isMaybe, rule }) => (isMaybe === true ? [rule] : [])),
    ...losses.flatMap(({ isCertain, cause }) => (isCertain ? [] : [cause])),
  ];
}

function outcomesOf(
  explanation: Explanation,
  packet: PacketExplanation,
  tuple: Tuple,
  deadPlaces: readonly string[],
): readonly string[] {
  const { verdict, connections } = explanation;
  if (packet.deliveries.length > 0) {
    const kept = connections.templates.map(({ realServer }) => realServer);
    const chosen = kept.length > 0 || packet.scheduled === undefined ? kept : [packet.scheduled];
    return packet.deliveries.flatMap((group) => deliveredOutcomes(group, chosen, deadPlaces));
  }
  switch (verdict) {
    case "node":
      return [processOutcome(tuple)];
    case "forwarded":
      // Without a route, the sender may get an error.
      return / are not delivered: /.test(packet.summary)
        ? ["dropped", "refused"]
        : [hostOutcome(tuple)];
    default:
      return [verdict];
  }
}

function deliveredOutcomes(
  group: DeliveryGroup,
  chosen: readonly string[],
  deadPlaces: readonly string[],
): readonly string[] {
  const { realServers, fate, obstacle, seenSource = "?" } = group;
  const known = realServers.filter((one) => chosen.length === 0 || chosen.includes(one));
  return known.flatMap((realServer) => {
    // The kernel may tell the sender that there is no route.
    if (/^there is no route/.test(obstacle ?? "")) return ["dropped", "refused"];
    const [, address = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(realServer) ?? [];
    const place = placeAt(address);
    const isOpen = Number(port) === (place === "node" ? hostPort : podPort);
    // The error from a closed port is an ICMP packet, which explain assumes to pass.
    if (/^its replies are dropped/.test(obstacle ?? "") && !isOpen) return ["dropped", "refused"];
    if (fate !== "delivered") return [fate];
    if (obstacle !== undefined) return ["dropped"];
    // The node reports an unknown neighbor after three seconds.
    if (place === undefined) return ["dropped", "refused"];
    if (deadPlaces.includes(place)) return ["dropped"];
    return isOpen ? [`${place}←${seenSource}`] : ["refused"];
  });
}

function isOf(addresses: Addresses, address: string): boolean {
  return Object.values(addresses).includes(address);
}

/** Undefined if no place has the address. */
function placeAt(address: string): string | undefined {
  if (isOf(node, address)) return "node";
  return guests.find(({ addresses }) => isOf(addresses, address))?.name;
}

/** Outcomes of the node's own processes, which only this test knows. */
function processOutcome({ protocol, address, port, sender }: Tuple): string {
  if (port === hostPort && isOf(node, address)) return "node←?";
  // If a reset comes from another address of the node, the kernel does not deliver it to ::1.
  const isToLoopback = sender.from === "::1" && address !== "::1" && protocol === "TCP";
  if (port !== ownPort) return isToLoopback ? "dropped" : "refused";
  // A socket for all addresses answers from the address that the route to the client prefers.
  const isPreferred = isOf(node, address) && !isPodOrLoopback(sender);
  return protocol === "TCP" || isPreferred ? "node←?" : "dropped";
}

function isPodOrLoopback({ place, name }: Tuple["sender"]): boolean {
  return name === "loopback" || guests.some((guest) => guest.name === place);
}

/** Outcomes at other hosts. */
function hostOutcome({ address, port }: Tuple): string {
  if (isOf(node2, address)) return "refused";
  const place = placeAt(address);
  if (place === undefined) return "dropped";
  return port === podPort ? `${place}←?` : "refused";
}

/** The verdict of a real packet: an answer, an error or nothing. */
export function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case "answer":
      return `${outcome.answer.backend}←${outcome.answer.source}`;
    case "silence":
      return "dropped";
    default:
      return outcome.kind === "failure" && outcome.code !== "ECONNRESET"
        ? `refused ${outcome.code}`
        : "refused";
  }
}

export function isAsPredicted({ outcomes }: Prediction, actual: string): boolean {
  // The sender of a datagram gets EPERM if a rule of its own node drops or rejects it. A host that lost a neighbor of
  // IPv6 for three seconds reports EHOSTUNREACH.
  const isLost = actual === "refused EPERM" || actual === "refused EHOSTUNREACH";
  if (isLost && outcomes.has("dropped")) return true;
  const words = actual.split(" ")[0] ?? "";
  return outcomes.has(words) || outcomes.has(words.replace(/←.*/, "←?"));
}

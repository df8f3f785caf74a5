/** Parts of a packet's way that proxy modes share. Pure. */
import { isLoopback } from "../../base/ip.ts";
import { deliver } from "./deliver.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet, Passing } from "./packet.ts";
import type { EndpointPath, PacketPath, PathEnd } from "./path.ts";
import { isLocal } from "./picture.ts";
import { type Hook, type Lot, type Step, type Traversal, traverse } from "./traverse.ts";

export interface Walk {
  readonly packet: Packet;
  readonly surroundings: Surroundings;
}

/** The first table that may choose an endpoint. */
export function enter({ packet, surroundings }: Walk, lot?: Lot): Traversal {
  const hook = packet.isFromNode ? "OUTPUT" : "PREROUTING";
  return traverse(hook, "nat", passingOf(packet, 0), surroundings, lot);
}

/** On its way to the destination that it began with. */
export function passingOf(packet: Packet, mark: number): Passing {
  const { destination, port } = packet;
  return { packet, destination, port, mark };
}

export function isToNode({ packet, surroundings }: Walk): boolean {
  const { picture, network } = surroundings;
  return isLocal(packet.destination, picture, network) || isLoopback(packet.destination);
}

/** Where filter sees it: a packet of the node to the node itself comes back in by the loopback link. */
export function filterHooks({ isFromNode }: Packet, isHere: boolean): readonly Hook[] {
  if (!isFromNode) return [isHere ? "INPUT" : "FORWARD"];
  return isHere ? ["OUTPUT", "INPUT"] : ["OUTPUT"];
}

export type Filtered = Pick<Traversal, "verdict" | "steps" | "mark">;

/** Passes filter at these hooks, one after the other, as long as it is let through. */
export function passFilter(
  hooks: readonly Hook[],
  passing: Passing,
  surroundings: Surroundings,
): Filtered {
  const steps: Step[] = [];
  let { mark } = passing;
  for (const hook of hooks) {
    const filtered = traverse(hook, "filter", { ...passing, mark }, surroundings);
    steps.push(...filtered.steps);
    mark = filtered.mark;
    if (filtered.verdict !== "pass") return { verdict: filtered.verdict, steps, mark };
  }
  return { verdict: "pass", steps, mark };
}

/** Undefined: filter lets it through. */
export function stoppedEnd({ verdict, steps }: Filtered): PathEnd | undefined {
  return verdict === "pass" ? undefined : { kind: verdict, by: steps.at(-1) };
}

/** Nobody chooses an endpoint: filter may refuse it, else it goes where its destination is. */
export function followOn(walk: Walk, { steps, mark }: Traversal): PacketPath {
  const { packet, surroundings } = walk;
  const isHere = isToNode(walk);
  const hooks = filterHooks(packet, isHere);
  const filtered = passFilter(hooks, passingOf(packet, mark), surroundings);
  const end = isHere ? ({ kind: "node" } as const) : forwardedEnd(walk);
  return { steps: [...steps, ...filtered.steps], end: stoppedEnd(filtered) ?? end };
}

export function forwardedEnd({ packet, surroundings }: Walk): PathEnd {
  return {
    kind: "forwarded",
    link: surroundings.network.routes.get(packet.destination)?.link,
  };
}

/** An endpoint is chosen, and `passing` on its way there: through filter at these hooks, and POSTROUTING. */
export function toEndpoint(
  { packet, surroundings }: Walk,
  passing: Passing,
  hooks: readonly Hook[],
): EndpointPath {
  const { picture, network } = surroundings;
  const endpoint = { address: passing.destination, port: passing.port };
  const { verdict, steps, mark } = passFilter(hooks, passing, surroundings);
  if (verdict !== "pass") {
    return { realServer: endpoint, steps, fate: verdict, isMasqueraded: false };
  }
  const arrival = { packet, endpoint };
  // What came from outside for a process of this node goes on up; it leaves nowhere.
  if (!packet.isFromNode && isLocal(endpoint.address, picture, network)) {
    return deliver({ ...arrival, steps, isMasqueraded: false }, surroundings);
  }
  const leaving = traverse("POSTROUTING", "nat", { ...passing, mark }, surroundings);
  const mayBeMasqueraded = passing.virtual === undefined || network.isIpvsTracked;
  const isMasqueraded = leaving.isMasqueraded && mayBeMasqueraded;
  return deliver({ ...arrival, steps: [...steps, ...leaving.steps], isMasqueraded }, surroundings);
}

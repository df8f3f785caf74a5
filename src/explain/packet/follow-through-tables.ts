/**
 * The whole way of a packet in mode iptables: chains of nat choose an endpoint and rewrite the destination, filter lets it
 * pass, POSTROUTING masquerades. Pure.
 */
import { isLoopback } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import { deliver } from "./deliver.ts";
import { everyOutcome } from "./every-outcome.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet, Passing } from "./packet.ts";
import type { EndpointPath, EndpointsOnNode, PacketPath, PathEnd } from "./path.ts";
import { isLocal } from "./picture.ts";
import { type Hook, type Step, type Traversal, traverse } from "./traverse.ts";

/** Every endpoint that lots may choose is followed. */
export function followThroughTables(
  packet: Packet,
  surroundings: Surroundings,
  onNode: EndpointsOnNode,
): PacketPath {
  const walk: Walk = { packet, surroundings, onNode };
  const hook = packet.isFromNode ? "OUTPUT" : "PREROUTING";
  const outcomes = everyOutcome((lot) =>
    traverse(hook, "nat", passingOf(packet), surroundings, lot),
  );
  const chosen = outcomes.flatMap((outcome) => {
    const { translation } = outcome;
    return translation?.kind === "translate" ? [{ outcome, endpoint: translation }] : [];
  });
  const other = outcomes.find(({ translation }) => translation?.kind !== "translate");
  const rest = other === undefined ? undefined : followOn(walk, other);
  if (chosen.length === 0) return rest ?? { steps: [], end: { kind: "node" } };
  const common = commonSteps(chosen.map(({ outcome }) => outcome.steps));
  const endpoints = chosen.map(({ outcome, endpoint: { address, port } }) => ({
    ...toEndpoint(walk, outcome, { address, port }),
    choice: outcome.steps.slice(common.length),
  }));
  return {
    steps: common,
    end: { kind: "balanced", endpoints, ...(rest === undefined ? {} : { rest: rest.end }) },
  };
}

export interface Walk {
  readonly packet: Packet;
  readonly surroundings: Surroundings;
  readonly onNode: EndpointsOnNode;
}

export function passingOf(packet: Packet): Passing {
  const { destination, port } = packet;
  return { packet, destination, port, mark: 0 };
}

function commonSteps(lists: readonly (readonly Step[])[]): readonly Step[] {
  const [first = [], ...others] = lists;
  const differs = first.findIndex(({ chain, rule }, index) =>
    others.some((steps) => steps[index]?.chain !== chain || steps[index]?.rule !== rule),
  );
  return differs < 0 || others.length === 0 ? first : first.slice(0, differs);
}

/** No rule rewrites it: filter may refuse it, else it goes where its destination is. */
export function followOn(
  { packet, surroundings }: Pick<Walk, "packet" | "surroundings">,
  { steps, mark }: Traversal,
): PacketPath {
  const { picture, network } = surroundings;
  const { destination } = packet;
  const isHere = isLocal(destination, picture, network) || isLoopback(destination);
  const link = network.routes.get(destination)?.link;
  const forwarded: PathEnd = { kind: "forwarded", ...(link === undefined ? {} : { link }) };
  const all: Step[] = [...steps];
  for (const hook of filterHooks(packet, isHere)) {
    const filtered = traverse(hook, "filter", { ...passingOf(packet), mark }, surroundings);
    all.push(...filtered.steps);
    if (filtered.verdict !== "pass") return { steps: all, end: stopped(filtered) };
  }
  return { steps: all, end: isHere ? { kind: "node" } : forwarded };
}

/** Where filter sees it: a packet of the node to the node itself comes back in by the loopback link. */
export function filterHooks({ isFromNode }: Packet, isHere: boolean): readonly Hook[] {
  if (!isFromNode) return [isHere ? "INPUT" : "FORWARD"];
  return isHere ? ["OUTPUT", "INPUT"] : ["OUTPUT"];
}

export function stopped({ verdict, steps }: Traversal): PathEnd {
  const by = steps.at(-1);
  return { kind: verdict === "drop" ? "dropped" : "refused", ...(by === undefined ? {} : { by }) };
}

function toEndpoint(walk: Walk, { mark }: Traversal, endpoint: RealServerId): EndpointPath {
  const { packet, surroundings } = walk;
  const { picture, network } = surroundings;
  const isHere = isLocal(endpoint.address, picture, network);
  const reason = blockOf(packet, isHere, surroundings);
  const lost = { realServer: endpoint, steps: [], isMasqueraded: false } as const;
  if (reason !== undefined) return { ...lost, fate: "dropped", obstacle: reason };
  const passing: Passing = {
    ...{ packet, mark },
    destination: endpoint.address,
    port: endpoint.port,
  };
  const steps: Step[] = [];
  for (const hook of filterHooks(packet, isHere)) {
    const filtered = traverse(hook, "filter", passing, surroundings);
    steps.push(...filtered.steps);
    if (filtered.verdict === "pass") continue;
    return { ...lost, steps, fate: filtered.verdict === "drop" ? "dropped" : "refused" };
  }
  // What came from outside for a process of this node leaves nowhere.
  const arrival = { packet, endpoint, onNode: walk.onNode };
  if (isHere && !packet.isFromNode) {
    return deliver({ ...arrival, steps, isMasqueraded: false }, surroundings);
  }
  const leaving = traverse("POSTROUTING", "nat", passing, surroundings);
  const { isMasqueraded } = leaving;
  return deliver({ ...arrival, steps: [...steps, ...leaving.steps], isMasqueraded }, surroundings);
}

/** Why the kernel lets no packet through that rules would. */
function blockOf(
  { family, source, isFromNode }: Packet,
  isHere: boolean,
  { network }: Surroundings,
): string | undefined {
  if (isHere) return undefined;
  if (isFromNode) {
    return isLoopback(source) && !network.isLoopbackRouted
      ? "net.ipv4.conf.all.route_localnet is 0, so nothing leaves from a loopback address"
      : undefined;
  }
  const name = family === "IPv4" ? "net.ipv4.ip_forward" : "net.ipv6.conf.all.forwarding";
  return network.isForwarding ? undefined : `${name} is 0, so this node forwards nothing`;
}

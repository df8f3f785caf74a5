/**
 * The whole way of a packet in mode iptables: chains of nat choose an endpoint and rewrite the destination, filter lets it
 * pass, POSTROUTING masquerades. Pure.
 */
import { isLoopback } from "../../base/ip.ts";
import type { RealServerId } from "../../state/real-server.ts";
import { everyOutcome } from "./every-outcome.ts";
import type { Surroundings } from "./match-rule.ts";
import type { Packet } from "./packet.ts";
import type { EndpointPath, PacketPath } from "./path.ts";
import { isLocal } from "./picture.ts";
import type { Step, Traversal } from "./traverse.ts";
import { enter, filterHooks, followOn, toEndpoint, type Walk } from "./walk.ts";

/** Every endpoint that lots may choose is followed. */
export function followThroughTables(walk: Walk): PacketPath {
  const outcomes = everyOutcome((lot) => enter(walk, lot));
  const chosen = outcomes.flatMap((outcome) => {
    const { translation } = outcome;
    return translation?.kind === "translate" ? [{ outcome, endpoint: translation }] : [];
  });
  const other = outcomes.find(({ translation }) => translation?.kind !== "translate");
  const rest = other === undefined ? undefined : followOn(walk, other);
  if (chosen.length === 0) return rest ?? { steps: [], end: { kind: "node" } };
  const common = commonSteps(chosen.map(({ outcome }) => outcome.steps));
  const endpoints = chosen.map(({ outcome, endpoint: { address, port } }) => ({
    ...translated(walk, outcome, { address, port }),
    choice: outcome.steps.slice(common.length),
  }));
  return {
    steps: common,
    end: { kind: "balanced", endpoints, ...(rest === undefined ? {} : { rest: rest.end }) },
  };
}

function commonSteps(lists: readonly (readonly Step[])[]): readonly Step[] {
  const [first = [], ...others] = lists;
  const differs = first.findIndex(({ chain, rule }, index) =>
    others.some((steps) => steps[index]?.chain !== chain || steps[index]?.rule !== rule),
  );
  return differs < 0 || others.length === 0 ? first : first.slice(0, differs);
}

function translated(walk: Walk, { mark }: Traversal, endpoint: RealServerId): EndpointPath {
  const { packet, surroundings } = walk;
  const { picture, network } = surroundings;
  const isHere = isLocal(endpoint.address, picture, network);
  const obstacle = blockOf(packet, isHere, surroundings);
  if (obstacle !== undefined) {
    return { realServer: endpoint, steps: [], isMasqueraded: false, fate: "dropped", obstacle };
  }
  const passing = { packet, mark, destination: endpoint.address, port: endpoint.port };
  return toEndpoint(walk, passing, filterHooks(packet, isHere));
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

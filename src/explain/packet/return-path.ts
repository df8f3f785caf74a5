/** Whether the kernel accepts a client's packet on the link through which it comes in, and whether a refusal returns. Pure. */
import { followRefusal } from "./connection.ts";
import { byText } from "./deliver.ts";
import { doubt } from "./doubts.ts";
import { type NodeState, routeKey } from "./node-state.ts";
import type { Packet } from "./packet.ts";
import type { PacketPath, PathEnd } from "./path.ts";
import type { Step } from "./traverse.ts";

/**
 * The end of a packet whose source the node cannot reach, so that replies and rejections are lost. A strict rp_filter
 * accepts packets only on the link that leads back to their source. Undefined if the kernel accepts the packet.
 */
export function returnPathEnd(
  { source, inLink, isFromNode }: Packet,
  { network }: NodeState,
): PathEnd | undefined {
  if (isFromNode) return undefined;
  if (inLink === "" || inLink !== network.strictLink) {
    const by = `because of the missing return path: there is no route to ${source}, or the route rejects packets (ip route get ${source})`;
    return network.unrouted.has(routeKey(source)) ? { kind: "dropped", by } : undefined;
  }
  const back = network.routes.get(source)?.link;
  if (back === inLink) return undefined;
  const route =
    back === undefined
      ? `there is no route to ${source}`
      : `the route to ${source} leaves through ${back}`;
  const by = `by the strict reverse-path check: rp_filter of ${inLink} is 1, and ${route}`;
  return { kind: "dropped", by };
}

/** A strict rp_filter drops packets that arrive through a link other than the one that leads back to the client. */
export function arrivalDoubts(packet: Packet, { network }: NodeState): readonly Step[] {
  const { source, inLink, isFromNode } = packet;
  const links = network.strictLinks.get(source) ?? [];
  if (isFromNode || links.length === 0) return [];
  const rule = `strict; packets that arrive there are dropped, because the route to ${source} leaves through ${inLink}`;
  return [doubt(packet, "rp_filter", links.join(", "), rule)];
}

/** If this node answers "port unreachable", follows this answer. A TCP reset is not followed. */
export function withRefusal(
  packet: Packet,
  { steps, end }: PacketPath,
  state: NodeState,
): PacketPath {
  const rule = end.kind === "refused" && typeof end.by === "object" ? end.by : undefined;
  const isRejected = rule?.hook === "INPUT" && /-j REJECT(?!.*tcp-reset)/.test(rule.rule);
  if (packet.isFromNode || !(isRejected || end.kind === "no-endpoint")) return { steps, end };
  const refusal = followRefusal(packet, state);
  const passed = [...steps, ...refusal.steps.filter(({ isMaybe }) => isMaybe)];
  if (refusal.verdict === "pass") return { steps: passed, end };
  const by = `on the way back: the ICMP error "port unreachable" is ${refusal.verdict}${byText(refusal.steps.at(-1))}`;
  return { steps: passed, end: { kind: "dropped", by } };
}

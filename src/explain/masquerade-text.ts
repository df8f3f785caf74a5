/** Names the rule that masquerades a packet and the source range that allows it. Pure. */
import { type Cidr, cidrContains, cidrText } from "../base/ip.ts";
import { rangesChain } from "../plan/range-rules.ts";
import type { NodeNetwork, NodeState } from "./packet/node-state.ts";
import type { Packet } from "./packet/packet.ts";
import type { PacketPath } from "./packet/path.ts";

/** Says why the packet is or is not masqueraded. Undefined if no endpoint gets the packet. */
export function masqueradeText(
  { steps, end }: PacketPath,
  network: NodeNetwork,
): string | undefined {
  if (end.kind === "taken" && end.endpoints.length > 0) {
    return "kube-ipvs opens the connection, so the endpoint sees this node";
  }
  if (end.kind !== "balanced") return undefined;
  const { endpoints, isByIpvs } = end;
  if (isByIpvs && !network.isIpvsTracked) return "none: net.ipv4.vs.conntrack is 0";
  const behind = endpoints.flatMap((endpoint) => endpoint.steps);
  const hairpin = behind.find(({ rule }) => rule.includes("LOOP-BACK"));
  if (hairpin !== undefined) return `to itself: ${hairpin.entries[0]?.entry} is in KUBE-LOOP-BACK`;
  const ofRange = behind.find(
    ({ chain, rule }) => chain === rangesChain && rule.includes("-j MASQUERADE"),
  );
  if (ofRange !== undefined) return `by ${ofRange.table} ${rangesChain}: ${ofRange.rule}`;
  const before = [...steps, ...endpoints.flatMap(({ choice = [] }) => choice)];
  const mark = before.find(({ rule }) => rule.endsWith("-j KUBE-MARK-MASQ"));
  if (mark === undefined) return "none: no rule marks the packet";
  const marked = `marked in ${mark.table} ${mark.chain}: ${mark.rule}`;
  if (endpoints.some(({ isMasqueraded }) => isMasqueraded)) {
    return mark.chain.startsWith("KUBE-SEP-") ? `to itself: ${marked}` : marked;
  }
  const isDelivered = endpoints.some(({ fate }) => fate === "delivered");
  const leaves = behind.some(({ hook, isMaybe }) => hook === "POSTROUTING" && isMaybe !== true);
  return isDelivered && !leaves
    ? "none: the endpoint is on this node, in the host's network"
    : `none, although ${marked}`;
}

/** Names the source range that allows a packet: `192.168.20.1/32 lets 192.168.20.1 in`. */
export function sourceRangeText(
  { source, isFromNode }: Packet,
  ranges: readonly Cidr[],
  { bound }: NodeState,
): string {
  const all = ranges.map(cidrText).join(", ");
  // The node's packets to a virtual IP have that address as their source, but the node IP determines the result.
  if (isFromNode && bound.has(source)) {
    return `this node has access if one of ${all} contains its node address`;
  }
  const range = ranges.find((one) => cidrContains(one, source));
  return range === undefined
    ? `${source} is in none of ${all}`
    : `${cidrText(range)} lets ${source} in`;
}

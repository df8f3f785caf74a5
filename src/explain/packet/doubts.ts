/** Reasons why a packet's path is uncertain, as steps that may match. Pure. */
import type { TrackedConnection } from "../../answer/explanation.ts";
import type { MarkRule } from "../../state/mark-rule.ts";
import type { NodeState } from "./node-state.ts";
import type { Packet } from "./packet.ts";
import type { Step } from "./traverse.ts";

export function doubt({ isFromNode }: Packet, table: string, chain: string, rule: string): Step {
  const hook = isFromNode ? "OUTPUT" : "PREROUTING";
  return { hook, table, chain, rule, entries: [], isMaybe: true };
}

/** If the conntrack table is full, the kernel drops a new connection unless it can remove one that is not established. */
export function fullTableDoubts(packet: Packet, { network }: NodeState): readonly Step[] {
  if (network.isConntrackFull !== true) return [];
  const rule = "the table is full (net.netfilter.nf_conntrack_max)";
  return [doubt(packet, "conntrack", "entries", rule)];
}

/** Routing rules that treat the packet differently because of its mark, which route lookups here ignore. */
export function markDoubts(packet: Packet, mark: number, { network }: NodeState): readonly Step[] {
  const selects = ({ mark: wanted, mask, isNegated }: MarkRule, own: number): boolean =>
    (((own & mask) ^ wanted) >>> 0 === 0) !== isNegated;
  return network.markRules
    .filter((rule) => selects(rule, mark) !== selects(rule, 0))
    .map(({ mark: wanted, mask, isNegated, table }) => {
      const not = isNegated ? "not " : "";
      const chain = `${not}fwmark ${hex(wanted)}/${hex(mask)}`;
      return doubt(packet, "ip rule", chain, `lookup ${table}`);
    });
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}

/** Conntrack entries that send a client's datagrams to an address that is not an endpoint, if the client reuses its port. */
export function staleDoubts(packet: Packet, stale: readonly TrackedConnection[]): readonly Step[] {
  return stale.map(({ client, answeredBy }) =>
    doubt(packet, "conntrack", "entries", `${client} -> ${answeredBy}, which is not an endpoint`),
  );
}

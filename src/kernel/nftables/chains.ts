/** Our chains in nf_tables. Pure. */
import type { TableName } from "../../state/rule.ts";

/** A chain that a netfilter hook calls. */
export interface BaseChain {
  readonly table: TableName;
  readonly name: string;
  /** The `nft` name of the chain type. */
  readonly type: "nat" | "filter";
  /** NF_INET_*. */
  readonly hook: number;
  readonly priority: number;
}

/** Base chains that replace iptables' built-in chains, at the same priorities. */
export const baseChains: readonly BaseChain[] = [
  { table: "nat", name: "PREROUTING", type: "nat", hook: 0, priority: -100 },
  { table: "nat", name: "OUTPUT", type: "nat", hook: 3, priority: -100 },
  { table: "nat", name: "POSTROUTING", type: "nat", hook: 4, priority: 100 },
  { table: "filter", name: "INPUT", type: "filter", hook: 1, priority: 0 },
  { table: "filter", name: "FORWARD", type: "filter", hook: 2, priority: 0 },
  { table: "filter", name: "OUTPUT", type: "filter", hook: 3, priority: 0 },
];

/** Created only for port ranges. */
export const mangleBaseChains: readonly BaseChain[] = [
  { table: "mangle", name: "PREROUTING", type: "filter", hook: 0, priority: -150 },
  { table: "mangle", name: "OUTPUT", type: "filter", hook: 3, priority: -150 },
];

/** For example `nat-KUBE-SERVICES`. One nf_tables table contains the chains of all iptables tables. */
export function chainNameOf(table: string, name: string): string {
  return `${table}-${name}`;
}

/** Reverses {@link chainNameOf}. Undefined if the name is not one of ours. */
export function chainOfName(
  text: string,
): { readonly table: TableName; readonly name: string } | undefined {
  const found = /^(nat|filter|mangle|raw)-(.+)$/.exec(text);
  if (found === null) return undefined;
  return { table: found[1] as TableName, name: found[2] ?? "" };
}

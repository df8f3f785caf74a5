/** Changes as the standard input of `iptables-restore --noflush --counters`. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { Chain, Jump, TableName } from "../../state/rule.ts";
import type { RuleChange } from "../kernel.ts";
import { checkChainName } from "./names.ts";
import { renderRule } from "./render.ts";

/** In the order of the input; each table is committed on its own. What filter keeps out, nat must not lead anywhere before. */
export const tableOrder: readonly TableName[] = ["filter", "nat", "mangle"];

/**
 * All tables in one input. Within a table only the result counts, since it is committed at once:
 *
 * 1. every chain that is written or removed is declared, which creates or empties it;
 * 2. jumps, in the order given, so that a chain can be removed after the jump to it;
 * 3. the rules of the written chains, which may now refer to each other;
 * 4. removals of chains: declared before, so an absent one does not fail.
 */
export function renderRestoreInput(family: IpFamily, changes: readonly RuleChange[]): string {
  return tableOrder.map((table) => renderTable(family, table, changes)).join("");
}

function renderTable(family: IpFamily, table: TableName, changes: readonly RuleChange[]): string {
  const inTable = changes.filter((change) => tableOf(change) === table);
  if (inTable.length === 0) return "";
  const chains = new Map<string, Chain | undefined>();
  const jumpLines: string[] = [];
  for (const change of inTable) {
    if (change.kind === "chain-write") chains.set(change.chain.name, change.chain);
    else if (change.kind === "chain-remove") chains.set(change.chainName, undefined);
    else jumpLines.push(renderJump(family, change.kind, change.jump));
  }
  const written = [...chains.values()].filter((chain) => chain !== undefined);
  // iptables-nft keeps chains in order of their names, and looks for a new one's place from the first on: with 30,000 chains it
  // takes 9.5 s of processor time where the last name comes first, and more than 64 s in another order (1.8.9).
  const names = [...chains.keys()].sort().reverse();
  const lines = [
    `*${table}`,
    ...names.map((name) => `:${checkChainName(name)} - [0:0]`),
    ...jumpLines,
    ...written.flatMap((chain) => renderChain(family, chain)),
    ...[...chains].filter(([, chain]) => chain === undefined).map(([name]) => `-X ${name}`),
    "COMMIT",
  ];
  return `${lines.join("\n")}\n`;
}

function renderChain(family: IpFamily, chain: Chain): readonly string[] {
  return chain.rules.map((rule) => `-A ${chain.name} ${renderRule(family, rule)}`);
}

function renderJump(family: IpFamily, kind: "jump-insert" | "jump-remove", jump: Jump): string {
  const command = kind === "jump-insert" ? "-I" : "-D";
  return `${command} ${checkChainName(jump.from)} ${renderRule(family, jump.rule)}`;
}

export function tableOf(change: RuleChange): TableName {
  switch (change.kind) {
    case "chain-write":
      return change.chain.table;
    case "chain-remove":
      return change.table;
    case "jump-insert":
    case "jump-remove":
      return change.jump.table;
  }
}

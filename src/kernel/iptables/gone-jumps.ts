/** Handles removals of jumps that no longer exist. Such a removal makes a restore fail for the whole table. Pure. */
import type { Chain, Jump, Rule, TableName } from "../../state/rule.ts";
import type { ObservedChain, RuleChange } from "../kernel.ts";
import { tableOf, tableOrder } from "./restore-input.ts";

/** Omits changes to tables before the failed one, because those tables are already committed. */
export function changesFrom(
  failedTable: TableName,
  changes: readonly RuleChange[],
): readonly RuleChange[] {
  const first = tableOrder.indexOf(failedTable);
  return changes.filter((change) => tableOrder.indexOf(tableOf(change)) >= first);
}

/** Keeps as many removals of a jump as there are observed copies of it. */
export function dropGoneJumps(
  changes: readonly RuleChange[],
  observed: readonly ObservedChain[],
  render: (rule: Rule) => string,
): readonly RuleChange[] {
  const textOf = (jump: Jump): string => `${jump.table} ${jump.from} ${render(jump.rule)}`;
  const copies = new Map<string, number>();
  for (const { table, name, rules } of observed) {
    for (const { text } of rules) {
      const key = `${table} ${name} ${text}`;
      copies.set(key, (copies.get(key) ?? 0) + 1);
    }
  }
  return changes.filter((change) => {
    if (change.kind !== "jump-remove") return true;
    const key = textOf(change.jump);
    const left = copies.get(key) ?? 0;
    copies.set(key, left - 1);
    return left > 0;
  });
}

/** The target chains of the jumps, without their rules. */
export function targetsOf(jumps: readonly Jump[]): readonly Chain[] {
  return jumps.flatMap(({ table, rule: { target } }) =>
    target.kind === "jump" ? [{ table, name: target.chain, rules: [] }] : [],
  );
}

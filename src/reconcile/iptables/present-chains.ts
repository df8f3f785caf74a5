import { chainKey, type RuleSet, type TableName } from "../../state/rule.ts";
import type { Change } from "../change.ts";

/** Chains of ours that are in the tables of one family, with how many rules each holds. */
export class PresentChains {
  readonly #ruleCounts = new Map<string, number>();
  readonly #totals = new Map<TableName, number>();

  constructor({ chains }: RuleSet) {
    for (const { table, name, rules } of chains) this.#set(table, name, rules.length);
  }

  has(table: TableName, name: string): boolean {
    return this.#ruleCounts.has(chainKey(table, name));
  }

  /** Rules in our chains, by table. */
  get totals(): ReadonlyMap<TableName, number> {
    return this.#totals;
  }

  /** What was written, and is there now. */
  note(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.kind === "chain-write") {
        const { table, name, rules } = change.chain;
        this.#set(table, name, rules.length);
      } else if (change.kind === "chain-remove")
        this.#set(change.table, change.chainName, undefined);
    }
  }

  #set(table: TableName, name: string, count: number | undefined): void {
    const key = chainKey(table, name);
    const added = (count ?? 0) - (this.#ruleCounts.get(key) ?? 0);
    if (count === undefined) this.#ruleCounts.delete(key);
    else this.#ruleCounts.set(key, count);
    this.#totals.set(table, (this.#totals.get(table) ?? 0) + added);
  }
}

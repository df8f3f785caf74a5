import type { IpFamily } from "../../base/ip.ts";
import { type Chain, chainKey, type TableName } from "../../state/rule.ts";
import type { Change } from "../change.ts";
import { diffChain, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import type { RenderRule } from "../kinds/rule-texts.ts";

/** Our chains in one family's tables, as last observed or written. */
export class CachedTables {
  /** The planned chain if the chain in the kernel matches it; otherwise the rule texts in the kernel. */
  readonly #chains = new Map<string, Chain | readonly string[]>();
  readonly #totals = new Map<TableName, number>();
  /** Texts of rules that the kernel rejects, by chain. */
  readonly rejectedRules: Map<string, ReadonlySet<string>> = new Map();
  /**
   * Chains of nat that were emptied because packets would otherwise reach them without passing a source range check.
   */
  readonly emptied: Set<string> = new Set();
  readonly #family: IpFamily;
  readonly #render: RenderRule;

  constructor(family: IpFamily, render: RenderRule) {
    this.#family = family;
    this.#render = render;
  }

  has(table: TableName, name: string): boolean {
    return this.#chains.has(chainKey(table, name));
  }

  /** The change that writes this chain; undefined if the chain is already as planned. */
  changeTo(chain: Chain): PlannedRuleChange | undefined {
    const { table, name } = chain;
    if (this.#chains.get(chainKey(table, name)) === chain) return undefined;
    const before = this.texts(table, name);
    return diffChain(chain, { family: this.#family, before, render: this.#render });
  }

  /** Undefined if the chain does not exist. */
  texts(table: TableName, name: string): readonly string[] | undefined {
    const cached = this.#chains.get(chainKey(table, name));
    return cached === undefined || !("rules" in cached) ? cached : cached.rules.map(this.#render);
  }

  /** Number of rules in our chains, by table. */
  get totals(): ReadonlyMap<TableName, number> {
    return this.#totals;
  }

  /** Updates the cache with changes that were made. */
  note(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.kind === "chain-write") {
        this.set(change.chain.table, change.chain.name, change.chain);
      } else if (change.kind === "chain-remove") {
        this.set(change.table, change.chainName, undefined);
      }
    }
  }

  /**
   * `chain` is the planned chain if the kernel has it, otherwise the rule texts in the kernel; undefined if the chain
   * does not exist.
   */
  set(table: TableName, name: string, chain: Chain | readonly string[] | undefined): void {
    const key = chainKey(table, name);
    const added = ruleCount(chain) - ruleCount(this.#chains.get(key));
    if (chain === undefined) this.#chains.delete(key);
    else this.#chains.set(key, chain);
    this.#totals.set(table, (this.#totals.get(table) ?? 0) + added);
  }
}

function ruleCount(chain: Chain | readonly string[] | undefined): number {
  if (chain === undefined) return 0;
  return "rules" in chain ? chain.rules.length : chain.length;
}

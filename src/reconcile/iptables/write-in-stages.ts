/**
 * Writes one family's tables in stages after the kernel rejected a restore. All Services except the affected ones are
 * served, and no packet is admitted without its source range check. Restricting chains are written first, then the
 * chains that lead to them. Removals are last.
 */
import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import { TimeSlice } from "../../base/time-slice.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import {
  type Chain,
  type ChainKey,
  chainKey,
  type Rule,
  type RuleSet,
  type TableName,
} from "../../state/rule.ts";
import type { RefusedChange } from "../apply/outcome.ts";
import { changeTo, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import { findRejected, sendRules } from "../kinds/restore.ts";
import type { CachedRules } from "../observed/cached-rules.ts";
import { ServedRules } from "./served-rules.ts";

/** A chain to which several Services contribute. */
export interface SharedChain extends Pick<Chain, "table" | "name"> {
  readonly key: ChainKey;
}

export interface TablesWriteContext {
  readonly family: IpFamily;
  readonly wanted: RuleSet;
  readonly cached: CachedRules;
  readonly iptables: Pick<Iptables, "apply">;
  readonly clock: Clock;
  /** From the first chain that a packet traverses to the last, because jump targets are written first. */
  readonly sharedChains: readonly SharedChain[];
}

/** After this many rejected restores, all remaining rules of a chain are treated as rejected. */
const mostRejections = 32;

export class StagedWrite {
  readonly made: PlannedRuleChange[] = [];
  readonly rejected: RefusedChange[] = [];
  readonly #context: TablesWriteContext;
  readonly #served: ServedRules;

  constructor(context: TablesWriteContext) {
    this.#context = context;
    this.#served = new ServedRules(context.wanted, context.cached);
  }

  /** Rejects if the outcome of a request is unknown. The cache then includes the changes made before that request. */
  async run(changes: readonly PlannedRuleChange[]): Promise<void> {
    const { clock, sharedChains } = this.#context;
    const slice = new TimeSlice(clock, "large");
    const shared = new Set(sharedChains.map(({ key }) => key));
    const guarded = new Set([...this.#served.unguarded(), ...this.#context.cached.emptied]);
    const isOwn = (change: PlannedRuleChange): boolean =>
      change.kind === "chain-write" &&
      !shared.has(chainKey(change.chain.table, change.chain.name)) &&
      !guarded.has(change.chain.name);
    const isJump = ({ kind }: PlannedRuleChange): boolean =>
      kind === "jump-insert" || kind === "jump-remove";
    for (const isInTable of [isNotNat, isNat]) {
      const inTable = changes.filter((change) => isInTable(tableOf(change)));
      await this.#send(inTable.filter(isOwn));
      for (const { key, table } of sharedChains.toReversed()) {
        const chain = this.#served.planned(key);
        if (chain === undefined || !isInTable(table)) continue;
        await this.#writeShared(chain);
        await slice.pause();
      }
      await this.#send(inTable.filter(isJump));
    }
    await this.#guard(guarded);
    await this.#send(changes.filter(({ kind }) => kind === "chain-remove"));
  }

  /**
   * Empties chains to which a rule jumps without a source range check. Writes their rules again when every jump to them
   * has its check.
   */
  async #guard(before: ReadonlySet<string>): Promise<void> {
    const { cached } = this.#context;
    const unguarded = this.#served.unguarded();
    for (const name of new Set([...before, ...unguarded])) {
      const isUnguarded = unguarded.has(name);
      if (isUnguarded) cached.emptied.add(name);
      else cached.emptied.delete(name);
      const chain = this.#served.planned(chainKey("nat", name));
      if (chain === undefined) continue;
      const change = this.#changeTo(isUnguarded ? { ...chain, rules: [] } : chain);
      if (change !== undefined) await this.#send([change]);
    }
  }

  /** Writes a shared chain. If the kernel rejects the chain, writes only the rules that the kernel accepts. */
  async #writeShared(planned: Chain): Promise<void> {
    const chain = this.#served.of(planned);
    const { cached } = this.#context;
    const change = this.#changeTo(chain);
    if (change === undefined) return;
    const error = await this.#attempt(change);
    if (error === undefined) return;
    const present = new Set(cached.texts(chainKey(chain.table, chain.name)));
    const accepted = new Set(chain.rules.filter((rule) => present.has(cached.text(rule))));
    this.rejected.push({ change, error });
    const added = chain.rules.filter((rule) => !accepted.has(rule));
    const write = (rules: readonly Rule[]): Promise<Error | undefined> =>
      this.#writeRules(chain, new Set([...accepted, ...rules]));
    if (added.length === 0 || (await write([])) !== undefined) return;
    const rejected = await findRejected(added, error, mostRejections, async (rules) => {
      const rejection = await write(rules);
      if (rejection === undefined) for (const rule of rules) accepted.add(rule);
      return rejection;
    });
    const texts = new Set(rejected.map(({ item }) => cached.text(item)));
    cached.rejectedRules.set(chainKey(chain.table, chain.name), texts);
  }

  async #writeRules(chain: Chain, accepted: ReadonlySet<Rule>): Promise<Error | undefined> {
    const rules = chain.rules.filter((rule) => accepted.has(rule));
    const change = this.#changeTo({ ...chain, rules });
    return change === undefined ? undefined : this.#attempt(change);
  }

  #changeTo(chain: Chain): PlannedRuleChange | undefined {
    return changeTo(chain, this.#context.family, this.#context.cached);
  }

  /** Makes the change. Resolves with the error if the kernel rejects it. */
  async #attempt(change: PlannedRuleChange): Promise<Error | undefined> {
    const [failed] = await sendRules([change], this.#context.iptables);
    if (failed === undefined) this.#noteMade([change]);
    return failed?.error;
  }

  async #send(changes: readonly PlannedRuleChange[]): Promise<void> {
    if (changes.length === 0) return;
    const failed = new Map(
      (await sendRules(changes, this.#context.iptables)).map(({ index, error }) => [index, error]),
    );
    this.#noteMade(changes.filter((_, index) => !failed.has(index)));
    for (const [index, error] of failed) {
      this.rejected.push({ change: changes[index] as PlannedRuleChange, error });
    }
  }

  #noteMade(changes: readonly PlannedRuleChange[]): void {
    this.made.push(...changes);
    for (const change of changes) this.#context.cached.note(change);
  }
}

function isNat(table: TableName): boolean {
  return table === "nat";
}

function isNotNat(table: TableName): boolean {
  return !isNat(table);
}

function tableOf(change: PlannedRuleChange): TableName {
  if (change.kind === "chain-remove") return change.table;
  return change.kind === "chain-write" ? change.chain.table : change.jump.table;
}

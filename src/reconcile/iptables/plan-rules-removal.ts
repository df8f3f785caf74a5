/** Plans the removal of leftover chains and the jumps to them from one family's tables. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import { type ChainKey, chainKey, type Rule, type RuleSet } from "../../state/rule.ts";
import type { PlannedRuleChange } from "../kinds/diff-rules.ts";
import type { RenderRule } from "../observed/cached-rules.ts";

/** Names of proxy modes' chains and jumps. */
export interface RuleNames {
  hasChain(key: ChainKey): boolean;
  /** `text` is a rule in the chain `key`, as printed by `iptables-save`. */
  hasJump(key: ChainKey, text: string): boolean;
}

/** The names in a rule set. */
export function namesIn({ chains, jumps }: RuleSet, render: RenderRule): RuleNames {
  const keys = new Set(chains.map(({ table, name }) => chainKey(table, name)));
  const texts = new Set(
    jumps.map(({ table, from, rule }) => `${chainKey(table, from)} ${render(rule)}`),
  );
  return { hasChain: (key) => keys.has(key), hasJump: (key, text) => texts.has(`${key} ${text}`) };
}

export const noNames: RuleNames = { hasChain: () => false, hasJump: () => false };

export interface RulesRemovalInput {
  readonly family: IpFamily;
  readonly observed: readonly ObservedChain[];
  readonly leftover: RuleNames;
  /** Chains and jumps of the current mode, which are kept. */
  readonly kept: RuleNames;
  /** Chains that are removed later. Those that jump to a leftover chain are emptied now. */
  readonly emptied?: RuleNames;
  /** Whether a sync will rewrite the current mode's chains before the removal, so that their rules are ignored. */
  readonly isBeforeSync?: boolean;
  /** Undefined if our rules never have this form. */
  parse(text: string): Rule | undefined;
}

export interface RulesRemoval {
  readonly changes: readonly PlannedRuleChange[];
  /** Chains that are kept because a third-party rule leads to them, such as `nat KUBE-SVC-…`. */
  readonly kept: readonly ChainKey[];
}

/** Removes jumps first, then chains. The removed modes' jumps are removed even if their target chains are kept. */
export function planRulesRemoval(input: RulesRemovalInput): RulesRemoval {
  const { family, observed, leftover, kept: current, emptied = noNames, parse } = input;
  const { isBeforeSync = false } = input;
  const keyOf = ({ table, name }: ObservedChain): ChainKey => chainKey(table, name);
  const isLeftover = (key: ChainKey): boolean => leftover.hasChain(key) && !current.hasChain(key);
  const present = observed.filter((chain) => isLeftover(keyOf(chain)));
  const names = new Set(present.map(keyOf));
  const jumps: PlannedRuleChange[] = [];
  const emptyings: PlannedRuleChange[] = [];
  const entries: ChainKey[] = [];
  for (const chain of observed) {
    const key = keyOf(chain);
    const { table, name, rules } = chain;
    if (names.has(key) || (isBeforeSync && current.hasChain(key))) continue;
    const texts = rules.map(({ text }) => text);
    const isOurJump = (text: string): boolean =>
      leftover.hasJump(key, text) && !current.hasJump(key, text);
    for (const rule of texts.filter(isOurJump).flatMap((text) => parse(text) ?? [])) {
      const jump = { table, from: name, rule };
      jumps.push({ kind: "jump-remove", family, jump, reason: "unwanted" });
    }
    const targets = texts
      .filter((text) => !isOurJump(text))
      .map((text) => chainKey(table, targetOf(text)))
      .filter((target) => names.has(target));
    if (targets.length === 0) continue;
    if (emptied.hasChain(key)) {
      const change = { chain: { table, name, rules: [] }, before: texts, reason: "unwanted" };
      emptyings.push({ kind: "chain-write", family, ...change } as PlannedRuleChange);
    } else entries.push(...targets);
  }
  const kept = reachableFrom(entries, present);
  const removals = present
    .filter((chain) => !kept.has(keyOf(chain)))
    .map(({ table, name: chainName }): PlannedRuleChange => {
      return { kind: "chain-remove", family, table, chainName, reason: "unwanted" };
    });
  return { changes: [...emptyings, ...jumps, ...removals], kept: [...kept] };
}

/** The chains in `entries`, and all chains reachable from them. */
function reachableFrom(
  entries: readonly ChainKey[],
  chains: readonly ObservedChain[],
): ReadonlySet<ChainKey> {
  const byKey = new Map(chains.map((chain) => [chainKey(chain.table, chain.name), chain]));
  const reachable = new Set<ChainKey>();
  const pending = [...entries];
  for (let key = pending.pop(); key !== undefined; key = pending.pop()) {
    const chain = byKey.get(key);
    if (chain === undefined || reachable.has(key)) continue;
    reachable.add(key);
    pending.push(...chain.rules.map(({ text }) => chainKey(chain.table, targetOf(text))));
  }
  return reachable;
}

/** The target chain of a rule. Ignores text inside comments. */
function targetOf(text: string): string {
  return /(?:^| )-[jg] (\S+)/.exec(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""'))?.[1] ?? "";
}

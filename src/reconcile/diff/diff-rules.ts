/** What must change so that the rules in the kernel become the planned ones, or go. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import { type Chain, chainKey, type Jump, type RuleSet } from "../../state/rule.ts";
import type { ChangeReason, FamilyRuleChange } from "../change.ts";
import type { CachedRules } from "../observed/cached-state.ts";
import {
  cachedRulesOf,
  groupKey,
  jumpGroups,
  jumpText,
  type RenderRule,
  wantedOrder,
} from "./rule-texts.ts";

export type PlannedRuleChange = FamilyRuleChange & { readonly reason: ChangeReason };

/** Rules of one family: as planned, and as they are. */
export interface RulesInput {
  readonly family: IpFamily;
  readonly planned: RuleSet;
  readonly cached: CachedRules;
  readonly render: RenderRule;
}

/**
 * Lists the changes: each chain that differs is written whole. Jumps from one built-in chain must stand in our order,
 * whatever stands between them: upper ones that are missing are inserted; otherwise ours are taken out and inserted
 * again, all in one restore. Third-party rules, and their place above or below ours, are left alone.
 */
export function diffRules(input: RulesInput): readonly PlannedRuleChange[] {
  const { planned, cached, render } = input;
  if (cached.plan === planned) return [];
  const chains = planned.chains
    .filter(
      (chain) => !sameTexts(cached.chains.get(chainKey(chain.table, chain.name)), chain, render),
    )
    .map((chain) => chainWrite(input, chain));
  return [...chains, ...jumpGroups(planned).flatMap((group) => groupChanges(group, input))];
}

function chainWrite({ family, cached }: RulesInput, chain: Chain): PlannedRuleChange {
  const before = cached.chains.get(chainKey(chain.table, chain.name));
  const reason = before === undefined ? "missing" : "differs";
  return { kind: "chain-write", family, chain, before, reason };
}

export interface RulesRemoval {
  readonly changes: readonly PlannedRuleChange[];
  /** Chains that stay, since a third party's rule still leads to them. */
  readonly kept: readonly Chain[];
}

/** Lists the changes that take out everything of ours, but for chains that a third party's rule leads to. */
export function removalOfRules(
  { family, planned, render }: Omit<RulesInput, "cached">,
  observed: readonly ObservedChain[],
): RulesRemoval {
  const cached = cachedRulesOf(observed, planned, render);
  const present = planned.chains.filter(({ table, name }) =>
    cached.chains.has(chainKey(table, name)),
  );
  const kept = keptChains(present, planned, observed, render);
  const input = { family, planned, cached, render };
  const jumps = jumpGroups(planned).flatMap((group) => groupRemovals(group, input, "unwanted"));
  const chains = present
    .filter((chain) => !kept.includes(chain))
    .map(
      ({ table, name: chainName }): PlannedRuleChange => ({
        kind: "chain-remove",
        family,
        table,
        chainName,
        reason: "unwanted",
      }),
    );
  return { changes: [...jumps, ...chains], kept };
}

/** Chains to which a third party's rule leads, at once or through another chain that is kept. */
function keptChains(
  present: readonly Chain[],
  planned: RuleSet,
  observed: readonly ObservedChain[],
  render: RenderRule,
): readonly Chain[] {
  const ours = new Set(present.map(({ table, name }) => chainKey(table, name)));
  const ourJumps = new Set(planned.jumps.map((jump) => jumpText(jump, render)));
  const kept = new Set<string>();
  for (let size = -1; size < kept.size; ) {
    size = kept.size;
    for (const { table, name, rules } of observed) {
      const key = chainKey(table, name);
      if (ours.has(key) && !kept.has(key)) continue;
      for (const { text } of rules) {
        const target = chainKey(table, targetOf(text) ?? "");
        if (ours.has(target) && !ourJumps.has(`${key} ${text}`)) kept.add(target);
      }
    }
  }
  return present.filter(({ table, name }) => kept.has(chainKey(table, name)));
}

function targetOf(ruleText: string): string | undefined {
  return /(?:^| )-[jg] (\S+)/.exec(ruleText)?.[1];
}

function sameTexts(
  cached: readonly string[] | undefined,
  chain: Chain,
  render: RenderRule,
): boolean {
  if (cached === undefined || cached.length !== chain.rules.length) return false;
  return chain.rules.every((rule, index) => render(rule) === cached[index]);
}

function groupChanges(group: readonly Jump[], input: RulesInput): readonly PlannedRuleChange[] {
  const { family, cached, render } = input;
  const present = cached.jumps.get(groupKey(group)) ?? [];
  const wanted = wantedOrder(group, render);
  const insertions = group.map(
    (jump): PlannedRuleChange => ({ kind: "jump-insert", family, jump, reason: "missing" }),
  );
  const missing = wanted.length - present.length;
  const isLowerPart = missing >= 0 && present.every((text, at) => text === wanted[missing + at]);
  if (isLowerPart) return insertions.slice(present.length);
  return [...groupRemovals(group, input, "differs"), ...insertions];
}

/** One removal for each copy of each jump that stands there. */
function groupRemovals(
  group: readonly Jump[],
  { family, cached, render }: RulesInput,
  reason: ChangeReason,
): readonly PlannedRuleChange[] {
  const jumpByText = new Map(group.map((jump) => [render(jump.rule), jump]));
  return (cached.jumps.get(groupKey(group)) ?? []).flatMap((text): readonly PlannedRuleChange[] => {
    const jump = jumpByText.get(text);
    return jump === undefined ? [] : [{ kind: "jump-remove", family, jump, reason }];
  });
}

/** Our rules as texts: the output of `iptables-save`, and the expected output for planned rules. Pure. */
import { finish } from "../../base/time-slice.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import { chainKey, type Jump, type Rule, type RuleSet } from "../../state/rule.ts";
import type { CachedRules } from "../observed/cached-state.ts";

/** Formats a rule like `iptables-save`, without `-A CHAIN `. */
export type RenderRule = (rule: Rule) => string;

/** Selects our rules from all observed rules. */
export function cachedRulesOf(
  observed: readonly ObservedChain[],
  planned: RuleSet,
  render: RenderRule,
): CachedRules {
  return finish(cachedRulesInSteps(observed, planned, render));
}

/** Like {@link cachedRulesOf}, and yields after each chain. */
export function* cachedRulesInSteps(
  observed: Iterable<ObservedChain>,
  planned: RuleSet,
  render: RenderRule,
): Generator<void, CachedRules> {
  const ours = new Set(planned.chains.map((chain) => chainKey(chain.table, chain.name)));
  const jumpTexts = new Set(planned.jumps.map((jump) => jumpText(jump, render)));
  const chains = new Map<string, readonly string[]>();
  const jumps = new Map<string, readonly string[]>();
  for (const { table, name, rules } of observed) {
    const key = chainKey(table, name);
    const texts = rules.map((rule) => rule.text);
    if (ours.has(key)) chains.set(key, texts);
    else {
      const ourTexts = texts.filter((text) => jumpTexts.has(`${key} ${text}`));
      if (ourTexts.length > 0) jumps.set(key, ourTexts);
    }
    yield;
  }
  return { chains, jumps };
}

/** The rules in the kernel after `planned` has been written. */
export function cachedRulesAfter(planned: RuleSet, render: RenderRule): CachedRules {
  const chains = new Map(
    planned.chains.map((chain) => [chainKey(chain.table, chain.name), chain.rules.map(render)]),
  );
  const jumps = new Map<string, readonly string[]>();
  for (const group of jumpGroups(planned)) jumps.set(groupKey(group), wantedOrder(group, render));
  return { chains, jumps, plan: planned };
}

/** The last inserted jump comes first in the chain. */
export function wantedOrder(group: readonly Jump[], render: RenderRule): readonly string[] {
  return group.map((jump) => render(jump.rule)).reverse();
}

/** Groups jumps by the chain that contains them; each group is in insertion order. */
export function jumpGroups(planned: RuleSet): readonly (readonly Jump[])[] {
  return [...Map.groupBy(planned.jumps, (jump) => chainKey(jump.table, jump.from)).values()];
}

export function groupKey(group: readonly Jump[]): string {
  const [first] = group;
  return first === undefined ? "" : chainKey(first.table, first.from);
}

export function jumpText(jump: Jump, render: RenderRule): string {
  return `${chainKey(jump.table, jump.from)} ${render(jump.rule)}`;
}

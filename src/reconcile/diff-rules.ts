/** Compares planned rules with what `iptables-save` printed. Pure: text comes from the renderer. */
import type { ObservedChain, RulesChange } from "../kernel/kernel.ts";
import type { Chain, Jump, Rule, RuleSet, TableName } from "../state/rule.ts";
import type { KnownRules } from "./known-state.ts";

/** Writes a rule as `iptables-save` does, behind `-A CHAIN `. */
export type RenderRule = (rule: Rule) => string;

/** Picks what is ours out of everything observed. */
export function knownRulesOf(
  observed: readonly ObservedChain[],
  planned: RuleSet,
  render: RenderRule,
): KnownRules {
  const ours = new Set(planned.chains.map((chain) => chainKey(chain.table, chain.name)));
  const jumpTexts = new Set(planned.jumps.map((jump) => jumpText(jump, render)));
  const chains = new Map<string, readonly string[]>();
  const jumps = new Map<string, readonly string[]>();
  for (const { table, name, rules } of observed) {
    const key = chainKey(table, name);
    const texts = rules.map((rule) => rule.text);
    if (ours.has(key)) chains.set(key, texts);
    else
      jumps.set(
        key,
        texts.filter((text) => jumpTexts.has(`${key} ${text}`)),
      );
  }
  return { chains, jumps };
}

/** What `planned` looks like in the kernel once it is written. */
export function knownRulesAfter(planned: RuleSet, render: RenderRule): KnownRules {
  const chains = new Map(
    planned.chains.map((chain) => [chainKey(chain.table, chain.name), chain.rules.map(render)]),
  );
  const jumps = new Map<string, readonly string[]>();
  for (const group of jumpGroups(planned)) jumps.set(groupKey(group), wantedOrder(group, render));
  return { chains, jumps };
}

/**
 * Lists the changes: each chain that differs is written whole. Jumps from one built-in chain must stand in
 * our order, whatever stands between them: upper ones that are lost are inserted; otherwise ours are taken
 * out and inserted anew, all in one restore. Rules of others, and their place above or below ours, are left
 * alone.
 */
export function diffRules(
  planned: RuleSet,
  known: KnownRules,
  render: RenderRule,
): readonly RulesChange[] {
  const chains = planned.chains
    .filter(
      (chain) => !sameTexts(known.chains.get(chainKey(chain.table, chain.name)), chain, render),
    )
    .map((chain): RulesChange => ({ kind: "write-chain", chain }));
  const jumps = jumpGroups(planned).flatMap((group) => groupChanges(group, known, render));
  return [...chains, ...jumps];
}

/** The chain that a change is about: `nat KUBE-SERVICES`; a jump is in one that is not ours. */
export function placeOf(change: RulesChange): string {
  if (change.kind === "write-chain") return chainKey(change.chain.table, change.chain.name);
  if (change.kind === "remove-chain") return chainKey(change.table, change.name);
  return chainKey(change.jump.table, change.jump.from);
}

/**
 * Lists the changes that take out everything of ours. A chain to which a rule of others still leads is
 * kept as it is, and named.
 */
export function removalOfRules(
  planned: RuleSet,
  observed: readonly ObservedChain[],
  render: RenderRule,
): { readonly changes: readonly RulesChange[]; readonly kept: readonly string[] } {
  const known = knownRulesOf(observed, planned, render);
  const present = planned.chains.filter(({ table, name }) =>
    known.chains.has(chainKey(table, name)),
  );
  const kept = keptChains(present, planned, observed, render);
  const jumps = jumpGroups(planned).flatMap((group) => groupRemovals(group, known, render));
  const chains = present
    .filter((chain) => !kept.includes(chain))
    .map(({ table, name }): RulesChange => ({ kind: "remove-chain", table, name }));
  return { changes: [...jumps, ...chains], kept: kept.map(({ name }) => name) };
}

/** Chains to which a rule of others leads, at once or through another chain that is kept. */
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
  known: readonly string[] | undefined,
  chain: Chain,
  render: RenderRule,
): boolean {
  if (known === undefined || known.length !== chain.rules.length) return false;
  return chain.rules.every((rule, index) => render(rule) === known[index]);
}

function groupChanges(
  group: readonly Jump[],
  known: KnownRules,
  render: RenderRule,
): readonly RulesChange[] {
  const present = known.jumps.get(groupKey(group)) ?? [];
  const wanted = wantedOrder(group, render);
  const insertions = group.map((jump): RulesChange => ({ kind: "insert-jump", jump }));
  const missing = wanted.length - present.length;
  const isLowerPart = missing >= 0 && present.every((text, at) => text === wanted[missing + at]);
  if (isLowerPart) return insertions.slice(present.length);
  return [...groupRemovals(group, known, render), ...insertions];
}

/** One removal for each copy of each jump that stands there. */
function groupRemovals(
  group: readonly Jump[],
  known: KnownRules,
  render: RenderRule,
): readonly RulesChange[] {
  const jumpByText = new Map(group.map((jump) => [render(jump.rule), jump]));
  return (known.jumps.get(groupKey(group)) ?? []).flatMap((text): readonly RulesChange[] => {
    const jump = jumpByText.get(text);
    return jump === undefined ? [] : [{ kind: "remove-jump", jump }];
  });
}

/** The last inserted stands first. */
function wantedOrder(group: readonly Jump[], render: RenderRule): readonly string[] {
  return group.map((jump) => render(jump.rule)).reverse();
}

/** Jumps by the chain they stand in, each group in insertion order. */
function jumpGroups(planned: RuleSet): readonly (readonly Jump[])[] {
  return [...Map.groupBy(planned.jumps, (jump) => chainKey(jump.table, jump.from)).values()];
}

function groupKey(group: readonly Jump[]): string {
  const [first] = group;
  return first === undefined ? "" : chainKey(first.table, first.from);
}

function chainKey(table: TableName, chain: string): string {
  return `${table} ${chain}`;
}

function jumpText(jump: Jump, render: RenderRule): string {
  return `${chainKey(jump.table, jump.from)} ${render(jump.rule)}`;
}

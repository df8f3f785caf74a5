/** Plans the changes that bring the kernel's rules to the planned state. */
import type { IpFamily } from "../../base/ip.ts";
import { type Chain, type ChainKey, chainKey, type Jump, type RuleSet } from "../../state/rule.ts";
import type { ChangeReason, FamilyRuleChange } from "../change.ts";
import type { CachedRules } from "../observed/cached-rules.ts";

const nat = chainKey("nat", "");

export type PlannedRuleChange = FamilyRuleChange & { readonly reason: ChangeReason };

/** The planned and the cached rules of one family. */
export interface RulesInput {
  readonly family: IpFamily;
  readonly planned: RuleSet;
  readonly cached: CachedRules;
}

/**
 * Plans the changes, and yields after each chain whose rules are compared. If the kernel has the previous plan's rules,
 * only chains that differ between the two plans are compared. A chain that differs from the plan is rewritten
 * completely. Our jumps in a built-in chain must be in the planned order, but third-party rules may be between them. If
 * only the topmost jumps are missing, they are inserted. Otherwise, all our jumps are removed and inserted again in one
 * restore. Third-party rules are not moved.
 */
export function* diffRules(input: RulesInput): Generator<void, readonly PlannedRuleChange[]> {
  const { family, planned, cached } = input;
  if (cached.plan === planned) return [];
  const { changes: recent } = planned;
  const isNext = recent !== undefined && recent.since === cached.plan?.revision;
  const changes: PlannedRuleChange[] = [];
  for (const chain of planned.ofServices?.others ?? []) {
    if (cached.has(chainKey(chain.table, chain.name))) continue;
    changes.push({ kind: "chain-write", family, chain, before: undefined, reason: "missing" });
  }
  for (const chain of isNext ? recent.chains : planned.chains) {
    if (cached.isKnown(chain)) continue;
    const change = changeTo(chain, family, cached);
    if (change !== undefined) changes.push(change);
    yield;
  }
  const gone = isNext ? recent.gone : goneChains(input, changes);
  const removed = gone.filter((key) => cached.has(key)).map((key) => removal(family, key));
  const jumps = Map.groupBy(planned.jumps, ({ table, from }) => chainKey(table, from));
  for (const [from, group] of jumps) changes.push(...groupChanges(from, group, input));
  return [...changes, ...removed];
}

/** The change that writes this chain. Undefined if the chain is already as planned. */
export function changeTo(
  chain: Chain,
  family: IpFamily,
  cached: CachedRules,
): PlannedRuleChange | undefined {
  if (cached.matches(chain)) return undefined;
  const before = cached.texts(chainKey(chain.table, chain.name));
  const reason = before === undefined ? "missing" : "differs";
  return { kind: "chain-write", family, chain, before, reason };
}

/** Keys of chains that belonged to former Services. `changes` contains the writes of planned chains. */
function goneChains(
  { planned, cached }: RulesInput,
  changes: readonly PlannedRuleChange[],
): readonly ChainKey[] {
  const { others = [], own } = planned.ofServices ?? {};
  if (own === undefined) return [];
  const added = changes.filter(({ reason }) => reason === "missing").length;
  if (cached.size === planned.chains.length + others.length - added) return [];
  const written = new Set(
    changes.flatMap((change) =>
      change.kind === "chain-write" ? [chainKey(change.chain.table, change.chain.name)] : [],
    ),
  );
  return cached
    .keysNotIn(planned)
    .filter((key) => key.startsWith(nat) && own.test(key.slice(nat.length)) && !written.has(key));
}

function removal(family: IpFamily, key: ChainKey): PlannedRuleChange {
  const chainName = key.slice(nat.length);
  return { kind: "chain-remove", family, table: "nat", chainName, reason: "unwanted" };
}

/** The jumps in one chain, in insertion order. The jump that is inserted last is the first rule. */
function groupChanges(
  from: ChainKey,
  group: readonly Jump[],
  { family, cached }: RulesInput,
): readonly PlannedRuleChange[] {
  const present = cached.jumps.get(from) ?? [];
  const wanted = group.map(({ rule }) => cached.text(rule)).reverse();
  const insertions = group.map(
    (jump): PlannedRuleChange => ({ kind: "jump-insert", family, jump, reason: "missing" }),
  );
  const missing = wanted.length - present.length;
  const isLowerPart = missing >= 0 && present.every((text, at) => text === wanted[missing + at]);
  if (isLowerPart) return insertions.slice(present.length);
  // Each existing copy of a jump needs a separate removal.
  const jumpByText = new Map(group.map((jump) => [cached.text(jump.rule), jump]));
  const removed = present.flatMap((text): readonly PlannedRuleChange[] => {
    const jump = jumpByText.get(text);
    return jump === undefined ? [] : [{ kind: "jump-remove", family, jump, reason: "differs" }];
  });
  return [...removed, ...insertions];
}

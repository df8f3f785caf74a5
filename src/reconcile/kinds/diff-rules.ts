/** Plans the changes that bring the kernel's rules to the planned state. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import { type Chain, chainKey, type Jump, type RuleSet } from "../../state/rule.ts";
import type { ChangeReason, FamilyRuleChange } from "../change.ts";
import type { CachedRules } from "../observed/cached-state.ts";
import { groupKey, jumpGroups, type RenderRule, wantedOrder } from "./rule-texts.ts";

export type PlannedRuleChange = FamilyRuleChange & { readonly reason: ChangeReason };

/** The planned and the cached rules of one family. */
export interface RulesInput {
  readonly family: IpFamily;
  readonly planned: RuleSet;
  readonly cached: CachedRules;
  readonly render: RenderRule;
}

/**
 * Plans the changes. A chain that differs is written completely. Our jumps in a built-in chain must be in the planned
 * order; third-party rules may be between them. If only the upper jumps are missing, they are inserted. Otherwise all
 * our jumps are removed and inserted again in one restore. Third-party rules keep their position above or below ours.
 */
export function diffRules(input: RulesInput): readonly PlannedRuleChange[] {
  const { family, planned, cached, render } = input;
  if (cached.plan === planned) return [];
  const chains = planned.chains.flatMap((chain) => {
    const before = cached.chains.get(chainKey(chain.table, chain.name));
    return diffChain(chain, { family, before, render }) ?? [];
  });
  return [...chains, ...diffJumps(input)];
}

export interface PresentChain extends Pick<RulesInput, "family" | "render"> {
  /** The current rule texts; undefined if the chain does not exist. */
  readonly before: readonly string[] | undefined;
}

/** Undefined if the chain is as planned. */
export function diffChain(
  chain: Chain,
  { family, before, render }: PresentChain,
): PlannedRuleChange | undefined {
  if (sameTexts(before, chain, render)) return undefined;
  const reason = before === undefined ? "missing" : "differs";
  return { kind: "chain-write", family, chain, before, reason };
}

export function diffJumps(input: RulesInput): readonly PlannedRuleChange[] {
  return jumpGroups(input.planned).flatMap((group) => groupChanges(group, input));
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
  return [...groupRemovals(group, input), ...insertions];
}

/** One removal for each existing copy of each jump. */
function groupRemovals(
  group: readonly Jump[],
  { family, cached, render }: RulesInput,
): readonly PlannedRuleChange[] {
  const jumpByText = new Map(group.map((jump) => [render(jump.rule), jump]));
  return (cached.jumps.get(groupKey(group)) ?? []).flatMap((text): readonly PlannedRuleChange[] => {
    const jump = jumpByText.get(text);
    return jump === undefined ? [] : [{ kind: "jump-remove", family, jump, reason: "differs" }];
  });
}

/** Recognizes restricting rules by their texts. Pure. */
import type { Rule } from "../../state/rule.ts";
import type { CachedRules } from "../observed/cached-rules.ts";
import type { PlanSteps } from "../plan-steps.ts";
import type { PlannedRuleChange } from "./diff-rules.ts";

const restricting = /(?:^| )-j (?:DROP|REJECT|KUBE-SOURCE-RANGES-FIREWALL)(?: |$)/;

/** Whether these rules block everything that the planned rules block. */
export function isAsStrict(texts: readonly string[], planned: readonly string[]): boolean {
  const [present, wanted] = [new Set(texts), new Set(planned)];
  return (
    planned.every((text) => present.has(text) || !restricting.test(text)) &&
    texts.every((text) => wanted.has(text) || restricting.test(text))
  );
}

/**
 * Adds a rule change to the plan. A write that would remove restricting rules is split into two writes. The first one
 * keeps these rules below the planned rules. The second one removes them, after everything that they restrict has been
 * removed. Third-party rules, for which `parse` returns undefined, are not kept.
 */
export function addInTwoSteps(
  change: PlannedRuleChange,
  cached: Pick<CachedRules, "text">,
  parse: (text: string) => Rule | undefined,
  { rules: now, formerRules: later }: PlanSteps,
): void {
  const render = (rule: Rule): string => cached.text(rule);
  const texts = change.kind === "chain-write" ? lostRestrictions(change, render) : [];
  const lost = texts.flatMap((text) => parse(text) ?? []);
  if (change.kind !== "chain-write" || lost.length === 0) {
    now.push(change);
    return;
  }
  const { before = [], chain } = change;
  const rules = [...chain.rules, ...lost];
  const written = rules.map(render);
  const isThere =
    written.length === before.length && written.every((text) => before.includes(text));
  if (!isThere) now.push({ ...change, chain: { ...chain, rules } });
  later.push({ ...change, before: written, reason: "loosens" });
}

function lostRestrictions(
  { before = [], chain }: PlannedRuleChange & { readonly kind: "chain-write" },
  render: (rule: Rule) => string,
): readonly string[] {
  if (chain.table !== "filter") return [];
  const after = new Set(chain.rules.map(render));
  return before.filter((text) => restricting.test(text) && !after.has(text));
}

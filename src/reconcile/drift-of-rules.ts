import { absent, type Drift } from "./drift.ts";
import type { KnownRules } from "./known-state.ts";

/** Rules of one family: as known, as found, and as they are wanted. */
export interface RulesView {
  /** Absent: not read yet. */
  readonly before: KnownRules | undefined;
  readonly after: KnownRules | undefined;
  readonly wanted: KnownRules;
}

type Texts = readonly string[];

/** Chains, rules and jumps of ours that others changed; subjects as `IPv4 nat KUBE-SERVICES`. Pure. */
export function driftOfRules(
  family: string,
  { before, after, wanted }: RulesView,
): readonly Drift[] {
  if (before === undefined || after === undefined) return [];
  const chains = [...before.chains].flatMap(([place, was]) => {
    const subject = `${family} ${place}`;
    const is = after.chains.get(place);
    if (is !== undefined) return changes("rule", subject, was, is, wanted.chains.get(place));
    return [{ kind: "chain", subject, before: `${was.length} rules`, after: absent } as const];
  });
  const jumps = [...before.jumps].flatMap(([place, was]) => {
    const is = after.jumps.get(place) ?? [];
    return changes("jump", `${family} ${place}`, was, is, wanted.jumps.get(place));
  });
  return [...chains, ...jumps];
}

function changes(
  kind: "rule" | "jump",
  subject: string,
  was: Texts,
  is: Texts,
  wanted: Texts | undefined,
): readonly Drift[] {
  if (sameTexts(was, is) || (wanted !== undefined && sameTexts(wanted, is))) return [];
  const lost = without(was, is).map(
    (text): Drift => ({ kind, subject, before: text, after: absent }),
  );
  const added = without(is, was).map(
    (text): Drift => ({ kind, subject, before: absent, after: text }),
  );
  if (lost.length + added.length > 0) return [...lost, ...added];
  return [{ kind, subject, before: "in our order", after: "in another order" }];
}

/** Members of `texts` beyond those of `others`; of equal ones as many as there are more. */
function without(texts: Texts, others: Texts): Texts {
  const counts = new Map<string, number>();
  for (const text of others) counts.set(text, (counts.get(text) ?? 0) + 1);
  return texts.filter((text) => {
    const count = counts.get(text) ?? 0;
    counts.set(text, count - 1);
    return count <= 0;
  });
}

function sameTexts(one: Texts, other: Texts): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index]);
}

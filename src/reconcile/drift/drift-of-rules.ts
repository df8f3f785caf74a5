import type { IpFamily } from "../../base/ip.ts";
import type { TableName } from "../../state/rule.ts";
import type { CachedRules } from "../observed/cached-state.ts";
import type { Subject } from "../subject.ts";
import { absent, type Drift } from "./drift.ts";

/** Rules of one family: as known, as found, and as they are wanted. */
export interface RulesView {
  /** Undefined until it has been read. */
  readonly before: CachedRules | undefined;
  readonly after: CachedRules | undefined;
  readonly wanted: CachedRules;
}

type Texts = readonly string[];

/** Chains, rules and jumps of ours that a third party changed. Pure. */
export function driftOfRules(
  family: IpFamily,
  { before, after, wanted }: RulesView,
): readonly Drift[] {
  if (before === undefined || after === undefined) return [];
  const chains = [...new Set([...wanted.chains.keys(), ...before.chains.keys()])].flatMap(
    (place) => {
      const was = before.chains.get(place);
      if (was === undefined) return [];
      const subject = chainSubject(family, place);
      const is = after.chains.get(place);
      if (is !== undefined) return changes("rule", subject, was, is, wanted.chains.get(place));
      return [{ kind: "chain", subject, before: `${was.length} rules`, after: absent } as const];
    },
  );
  const jumps = [...before.jumps].flatMap(([place, was]) => {
    const is = after.jumps.get(place) ?? [];
    return changes("jump", chainSubject(family, place), was, is, wanted.jumps.get(place));
  });
  return [...chains, ...jumps];
}

/** `place`: a key of {@link CachedRules}. */
function chainSubject(family: IpFamily, place: string): Subject {
  const [table, chainName = ""] = place.split(" ");
  return { type: "chain", family, table: table as TableName, chainName };
}

function changes(
  kind: "rule" | "jump",
  subject: Subject,
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

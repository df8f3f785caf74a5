/** Our chains, and our jumps in built-in chains. */
import type { ChainKey, TableName } from "../../state/rule.ts";
import { chainKey, type Jump } from "../../state/rule.ts";
import type { FamilyRuleChange } from "../change.ts";
import { absent } from "../drift.ts";
import type { Differences } from "../observed/difference.ts";
import type { Subject } from "../subject.ts";
import type { DriftTexts, Kind, Kinds } from "./kind.ts";
import { sendRules } from "./restore.ts";

type RuleKind = Pick<
  Kind<FamilyRuleChange>,
  "part" | "requestKey" | "isTransaction" | "send" | "fold"
>;

const inRestore: RuleKind = {
  part: "rules",
  requestKey: ({ family }) => family,
  isTransaction: true,
  send: (changes, { iptables }) => sendRules(changes, iptables),
  fold: (change, { cached }) => cached.rules.get(change.family)?.note(change),
};

interface JumpChange {
  readonly family: FamilyRuleChange["family"];
  readonly jump: Jump;
}

const jumpKind: RuleKind & Kind<FamilyRuleChange & JumpChange> = {
  ...inRestore,
  subject: ({ family, jump: { table, from } }) => chainSubject(family, table, from),
  detail: ({ jump: { rule } }) =>
    `jump ${rule.target.kind === "jump" ? rule.target.chain : rule.target.kind}`,
  drift({ family, jump: { table, from } }, differences) {
    const [was, is] = textsOf("jumps", family, chainKey(table, from), differences);
    return was === undefined ? [] : driftOf("jump", was, is ?? []);
  },
};

export const ruleKinds: Kinds<FamilyRuleChange["kind"]> = {
  "chain-write": {
    ...inRestore,
    subject: ({ family, chain: { table, name } }) => chainSubject(family, table, name),
    detail: ({ before, chain: { rules } }) => `${before?.length ?? 0} -> ${rules.length} rules`,
    drift({ family, chain: { table, name } }, differences) {
      const [was, is] = textsOf("chains", family, chainKey(table, name), differences);
      if (was === undefined) return [];
      if (is !== undefined) return driftOf("rule", was, is);
      return [{ kind: "chain", before: `${was.length} rules`, after: absent }];
    },
  },
  "chain-remove": {
    ...inRestore,
    subject: ({ family, table, chainName }) => chainSubject(family, table, chainName),
  },
  "jump-insert": jumpKind,
  "jump-remove": jumpKind,
};

function chainSubject(
  family: FamilyRuleChange["family"],
  table: TableName,
  chainName: string,
): Subject {
  return { type: "chain", family, table, chainName };
}

type Texts = readonly string[];

/** The cached and the observed rule texts. */
function textsOf(
  part: "chains" | "jumps",
  family: FamilyRuleChange["family"],
  place: ChainKey,
  { rules }: Differences,
): readonly (Texts | undefined)[] {
  const difference = rules.get(family);
  return [difference?.before?.[part].get(place), difference?.after?.[part].get(place)];
}

function driftOf(kind: "rule" | "jump", was: Texts, is: Texts): DriftTexts {
  const lost = without(was, is).map((text) => ({ kind, before: text, after: absent }));
  const added = without(is, was).map((text) => ({ kind, before: absent, after: text }));
  if (lost.length + added.length > 0) return [...lost, ...added];
  if (was.every((text, index) => text === is[index])) return [];
  return [{ kind, before: "in our order", after: "in a different order" }];
}

/**
 * The multiset difference. A text that occurs more often in `texts` than in `others` is repeated as often as the counts
 * differ.
 */
function without(texts: Texts, others: Texts): Texts {
  const counts = new Map<string, number>();
  for (const text of others) counts.set(text, (counts.get(text) ?? 0) + 1);
  return texts.filter((text) => {
    const count = counts.get(text) ?? 0;
    counts.set(text, count - 1);
    return count <= 0;
  });
}

/** What takes a plan's chains and jumps out of tables that are not written otherwise. Pure. */
import type { Rule, RuleSet, TableName } from "../../state/rule.ts";
import type { ObservedChain, RulesChange } from "../kernel.ts";

export interface RulesRemoval {
  readonly changes: readonly RulesChange[];
  /** Chains that stay, since rules of other programs lead to them: `nat KUBE-MARK-MASQ`. */
  readonly kept: readonly string[];
}

/** Each copy of each jump, then the chains to which no other rule leads. */
export function planRemoval(
  planned: RuleSet,
  observed: readonly ObservedChain[],
  render: (rule: Rule) => string,
): RulesRemoval {
  const jumpByText = new Map(
    planned.jumps.map((jump) => [`${jump.table} ${jump.from} ${render(jump.rule)}`, jump]),
  );
  const jumps = observed.flatMap(({ table, name, rules }) =>
    rules.flatMap(({ text }): readonly RulesChange[] => {
      const jump = jumpByText.get(`${table} ${name} ${text}`);
      return jump === undefined ? [] : [{ kind: "remove-jump", jump }];
    }),
  );
  const present = new Set(observed.map(keyOf));
  const ours = planned.chains.filter((chain) => present.has(keyOf(chain)));
  const kept = keptChains(new Set(ours.map(keyOf)), observed, (place, text) =>
    jumpByText.has(`${place} ${text}`),
  );
  const chains = ours
    .filter((chain) => !kept.has(keyOf(chain)))
    .map(({ table, name }): RulesChange => ({ kind: "remove-chain", table, name }));
  return { changes: [...jumps, ...chains], kept: [...kept] };
}

/** Chains to which a rule of others leads, at once or by way of a chain that is kept. */
function keptChains(
  ours: ReadonlySet<string>,
  observed: readonly ObservedChain[],
  isOurJump: (place: string, text: string) => boolean,
): ReadonlySet<string> {
  const kept = new Set<string>();
  for (let size = -1; size < kept.size; ) {
    size = kept.size;
    for (const chain of observed) {
      const place = keyOf(chain);
      if (ours.has(place) && !kept.has(place)) continue;
      for (const { text } of chain.rules) {
        const target = keyOf({ table: chain.table, name: targetOf(text) });
        if (ours.has(target) && !isOurJump(place, text)) kept.add(target);
      }
    }
  }
  return kept;
}

function targetOf(text: string): string {
  return /(?:^| )-[jg] (\S+)/.exec(text)?.[1] ?? "";
}

function keyOf({ table, name }: { readonly table: TableName; readonly name: string }): string {
  return `${table} ${name}`;
}

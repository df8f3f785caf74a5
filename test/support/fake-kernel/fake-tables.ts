/** One family's iptables, which follows the rules of iptables-restore. */
import type { IpFamily } from "../../../src/base/ip.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import type { ObservedChain, ObservedRule, RuleChange } from "../../../src/kernel/kernel.ts";
import type { Jump, Rule, TableName } from "../../../src/state/rule.ts";

/** The reason for not changing a table. `lineText` is the line in the restore input. */
export class TableRefusal extends Error {
  readonly lineText: string;

  constructor(reason: string, lineText: string) {
    super(reason);
    this.lineText = lineText;
  }
}

type Chains = Map<string, readonly ObservedRule[]>;

const builtInChains: Readonly<Record<TableName, readonly string[]>> = {
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
  mangle: ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
  raw: ["PREROUTING", "OUTPUT"],
};

export class FakeTable {
  readonly #family: IpFamily;
  readonly #name: TableName;
  #chains: Chains;
  readonly #dropping = new Set<string>();
  /**
   * Number of rules that name each set. Computed on the first query after a change, because callers query every set.
   */
  #references: ReadonlyMap<string, number> | undefined;

  constructor(family: IpFamily, name: TableName) {
    this.#family = family;
    this.#name = name;
    this.#chains = new Map(builtInChains[name].map((chain) => [chain, []]));
  }

  /** Built-in chains first, then user-defined ones by name, as `iptables-save` prints them. */
  observe(): readonly ObservedChain[] {
    const own = [...this.#chains.keys()].filter((name) => !isBuiltIn(this.#name, name)).sort();
    return [...builtInChains[this.#name], ...own].map((name) => ({
      table: this.#name,
      name,
      rules: this.#chains.get(name) ?? [],
      ...(this.#dropping.has(name) ? { policy: "DROP" } : {}),
    }));
  }

  /** Sets the policy as `iptables -P CHAIN DROP` does. */
  drop(chain: string): void {
    this.#dropping.add(chain);
  }

  /** Creates an empty chain as another program would. */
  create(chain: string): void {
    this.#chains.set(chain, []);
  }

  /** Appends a rule as another program would, creating the chain if it does not exist. */
  append(chain: string, text: string): void {
    this.#references = undefined;
    this.#chains.set(chain, [...(this.#chains.get(chain) ?? []), { text }]);
  }

  /** Removes a chain's matching rules as another program would. */
  remove(chain: string, pattern: RegExp): void {
    this.#references = undefined;
    const rules = this.#chains.get(chain) ?? [];
    this.#chains.set(
      chain,
      rules.filter(({ text }) => !pattern.test(text)),
    );
  }

  /** Removes all rules and all user-defined chains, as `iptables -F` and `-X` do. */
  flush(): void {
    this.#references = undefined;
    this.#chains = new Map(builtInChains[this.#name].map((chain) => [chain, []]));
  }

  /** Number of rules that refer to a set. */
  referencesTo(setName: string): number {
    this.#references ??= countReferences(this.#chains);
    return this.#references.get(setName) ?? 0;
  }

  /**
   * Makes all changes, or throws a {@link TableRefusal} without changing anything. Follows the phases of the restore
   * input.
   */
  commit(changes: readonly RuleChange[], hasSet: (name: string) => boolean): void {
    const chains: Chains = new Map(this.#chains);
    const written = lastWords(changes);
    for (const [name, rules] of written) {
      if (rules === undefined) chains.delete(name);
      else chains.set(name, []);
    }
    const named = new Set([...this.#chains.keys(), ...written.keys()]);
    for (const change of changes) {
      if (change.kind === "jump-insert") this.#checkTarget(named, change.jump);
      this.#moveJump(chains, change);
    }
    for (const [name, rules] of written) {
      if (rules === undefined) continue;
      // Rules are appended after the inserted jumps, as in a restore.
      const inserted = chains.get(name) ?? [];
      chains.set(name, [...inserted, ...rules.map((rule) => this.#observed(rule))]);
    }
    checkReferences(chains, hasSet);
    this.#chains = chains;
    this.#references = undefined;
  }

  /** A jump's target must exist when the jump is inserted, even if the same input removes the jump. */
  #checkTarget(named: ReadonlySet<string>, { from, rule }: Jump): void {
    const { target } = rule;
    if (target.kind !== "jump" || named.has(target.chain)) return;
    const lineText = `-I ${from} ${renderRule(this.#family, rule)}`;
    throw new TableRefusal(`Couldn't load target \`${target.chain}'`, lineText);
  }

  #moveJump(chains: Chains, change: RuleChange): void {
    if (change.kind === "jump-insert") {
      const rules = this.#rulesOf(chains, change.jump, "-I");
      chains.set(change.jump.from, [this.#observed(change.jump.rule), ...rules]);
    }
    if (change.kind === "jump-remove") {
      const rules = this.#rulesOf(chains, change.jump, "-D");
      const text = renderRule(this.#family, change.jump.rule);
      const at = rules.findIndex((rule) => rule.text === text);
      if (at >= 0) chains.set(change.jump.from, rules.toSpliced(at, 1));
    }
  }

  #rulesOf(chains: Chains, { from, rule }: Jump, command: string): readonly ObservedRule[] {
    const rules = chains.get(from);
    if (rules !== undefined) return rules;
    const lineText = `${command} ${from} ${renderRule(this.#family, rule)}`;
    throw new TableRefusal("No chain/target/match by that name", lineText);
  }

  #observed(rule: Rule): ObservedRule {
    return { text: renderRule(this.#family, rule) };
  }
}

function countReferences(chains: Chains): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const rule of [...chains.values()].flat()) {
    for (const name of new Set(setsOf(rule))) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/**
 * Returns the final rules of each changed chain, or undefined for a removed chain. If a chain is changed several times,
 * the last change applies.
 */
function lastWords(
  changes: readonly RuleChange[],
): ReadonlyMap<string, readonly Rule[] | undefined> {
  const words = new Map<string, readonly Rule[] | undefined>();
  for (const change of changes) {
    if (change.kind === "chain-write") words.set(change.chain.name, change.chain.rules);
    if (change.kind === "chain-remove") words.set(change.chainName, undefined);
  }
  return words;
}

function isBuiltIn(table: TableName, chain: string): boolean {
  return builtInChains[table].includes(chain);
}

/** Every named set and every target chain must exist. */
function checkReferences(chains: Chains, hasSet: (name: string) => boolean): void {
  for (const [name, rules] of chains) {
    for (const observed of rules) {
      const lineText = `-A ${name} ${observed.text}`;
      const missingSet = setsOf(observed).find((set) => !hasSet(set));
      if (missingSet !== undefined) {
        throw new TableRefusal(`Set ${missingSet} doesn't exist.`, lineText);
      }
      const target = targetOf(observed);
      if (target !== undefined && !targets.has(target) && !chains.has(target)) {
        throw new TableRefusal(`Couldn't load target \`${target}'`, lineText);
      }
    }
  }
}

/** Targets that are not chains. */
const targets: ReadonlySet<string> = new Set(
  "ACCEPT DROP RETURN REJECT MARK MASQUERADE DNAT SNAT REDIRECT LOG CT TCPMSS".split(" "),
);

function setsOf({ text }: ObservedRule): readonly string[] {
  return [...text.matchAll(/ --match-set (\S+) /g)].map(([, name = ""]) => name);
}

function targetOf({ text }: ObservedRule): string | undefined {
  return /(?:^| )-[jg] (\S+)/.exec(text.replaceAll(/"[^"]*"/g, '""'))?.[1];
}

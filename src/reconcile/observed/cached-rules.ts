import type { ObservedChain } from "../../kernel/kernel.ts";
import {
  type Chain,
  type ChainKey,
  chainKey,
  type Rule,
  type RuleSet,
  type TableName,
} from "../../state/rule.ts";
import type { FamilyRuleChange } from "../change.ts";

type Texts = readonly string[];

/** Formats a rule like `iptables-save`, without `-A CHAIN `. */
export type RenderRule = (rule: Rule) => string;

/** Our rules in one family's tables, as last observed or written. */
export class CachedRules {
  /** The planned chain if the chain in the kernel matches it; otherwise the texts of the rules in the kernel. */
  readonly #chains = new Map<ChainKey, Chain | Texts>();
  /** The planned chains in `#chains`, which can be looked up without a key. */
  readonly #matching = new Set<Chain>();
  readonly #jumps = new Map<ChainKey, Texts>();
  readonly #totals = new Map<TableName, number>();
  readonly #render: RenderRule;
  /** The plan that these rules match exactly. Undefined if they have not been compared since they changed. */
  plan: RuleSet | undefined;
  /** Incremented with each recorded change. */
  version = 0;
  /** iptables mode: texts of rules that the kernel rejects, by chain. */
  readonly rejectedRules: Map<ChainKey, ReadonlySet<string>> = new Map();
  /** nat chains that were emptied because packets would otherwise reach them without a source range check. */
  readonly emptied: Set<string> = new Set();

  constructor(render: RenderRule) {
    this.#render = render;
  }

  /** The text of a planned rule, to compare with the texts of existing rules. */
  text(rule: Rule): string {
    return inOneForm(this.#render(rule));
  }

  /** Texts of our existing chains. */
  get chains(): ReadonlyMap<ChainKey, Texts> {
    return new Map([...this.#chains.keys()].map((key) => [key, this.texts(key) ?? []]));
  }

  get size(): number {
    return this.#chains.size;
  }

  /** Keys of our chains that differ from this plan or are not in it. */
  keysNotIn({ chains }: RuleSet): readonly ChainKey[] {
    const planned = new Set(chains);
    const keys: ChainKey[] = [];
    for (const [key, cached] of this.#chains) {
      if (!("rules" in cached && planned.has(cached))) keys.push(key);
    }
    return keys;
  }

  /** Our jumps in built-in chains, in chain order. */
  get jumps(): ReadonlyMap<ChainKey, Texts> {
    return this.#jumps;
  }

  /** Number of rules in our chains, by table. */
  get totals(): ReadonlyMap<TableName, number> {
    return this.#totals;
  }

  has(key: ChainKey): boolean {
    return this.#chains.has(key);
  }

  /** Undefined if the chain does not exist. */
  texts(key: ChainKey): Texts | undefined {
    const cached = this.#chains.get(key);
    return cached === undefined || !("rules" in cached)
      ? cached
      : cached.rules.map((rule) => this.text(rule));
  }

  /** Whether the chain is as planned. If so, it replaces the texts, which makes further comparisons free. */
  matches(chain: Chain): boolean {
    if (this.isKnown(chain)) return true;
    const key = chainKey(chain.table, chain.name);
    const texts = this.texts(key);
    if (texts?.length !== chain.rules.length) return false;
    if (chain.rules.some((rule, index) => this.text(rule) !== texts[index])) return false;
    this.#set(chain.table, key, chain);
    return true;
  }

  /** Whether this planned chain is already known to match. Costs one lookup. */
  isKnown(chain: Chain): boolean {
    return this.#matching.has(chain);
  }

  /** Records a chain that was read. */
  observe({ table, name, rules, isDisabled }: ObservedChain, planned: PlannedKeys): void {
    const key = chainKey(table, name);
    const texts = rules.map((rule) => inOneForm(rule.text));
    if (planned.chains.has(key) || (table === "nat" && planned.own?.test(name) === true)) {
      this.#set(table, key, texts);
      return;
    }
    // Other software adds rules to this chain, and our jumps may be among them.
    if (planned.others.has(key)) this.#set(table, key, []);
    // The chain is disabled, so treat its jumps as missing: inserting them again also enables the chain.
    if (isDisabled === true) return;
    const ours = texts.filter((text) => planned.jumps.has(`${key} ${text}`));
    if (ours.length > 0) this.#jumps.set(key, ours);
  }

  /** Updates the cache with a change that was made. */
  note(change: FamilyRuleChange): void {
    this.version += 1;
    this.plan = undefined;
    if (change.kind === "chain-write") {
      const { table, name } = change.chain;
      this.#set(table, chainKey(table, name), change.chain);
    } else if (change.kind === "chain-remove") {
      this.#set(change.table, chainKey(change.table, change.chainName), undefined);
    } else {
      const place = chainKey(change.jump.table, change.jump.from);
      const text = this.text(change.jump.rule);
      const present = this.#jumps.get(place) ?? [];
      const at = present.indexOf(text);
      if (change.kind === "jump-insert") this.#jumps.set(place, [text, ...present]);
      else if (at >= 0) this.#jumps.set(place, present.toSpliced(at, 1));
    }
  }

  #set(table: TableName, key: ChainKey, chain: Chain | Texts | undefined): void {
    const before = this.#chains.get(key);
    const added = ruleCount(chain) - ruleCount(before);
    if (before !== undefined && "rules" in before) this.#matching.delete(before);
    if (chain !== undefined && "rules" in chain) this.#matching.add(chain);
    if (chain === undefined) this.#chains.delete(key);
    else this.#chains.set(key, chain);
    this.#totals.set(table, (this.#totals.get(table) ?? 0) + added);
  }
}

function ruleCount(chain: Chain | Texts | undefined): number {
  if (chain === undefined) return 0;
  return "rules" in chain ? chain.rules.length : chain.length;
}

/** Selects our rules from all observed rules. */
interface PlannedKeys {
  readonly chains: ReadonlySet<ChainKey>;
  readonly jumps: ReadonlySet<string>;
  readonly others: ReadonlySet<ChainKey>;
  readonly own: RegExp | undefined;
}

/** Reads our rules from all observed rules, and yields after each chain. */
export function* cachedRulesInSteps(
  observed: readonly ObservedChain[],
  { chains, jumps, ofServices }: RuleSet,
  render: RenderRule,
): Generator<void, CachedRules> {
  const cached = new CachedRules(render);
  const keysOf = (of: readonly Chain[] = []): ReadonlySet<ChainKey> =>
    new Set(of.map(({ table, name }) => chainKey(table, name)));
  const planned = {
    chains: keysOf(chains),
    others: keysOf(ofServices?.others),
    jumps: new Set(
      jumps.map(({ table, from, rule }) => `${chainKey(table, from)} ${cached.text(rule)}`),
    ),
    own: ofServices?.own,
  };
  for (const chain of observed) {
    cached.observe(chain, planned);
    yield;
  }
  return cached;
}

/**
 * Makes texts comparable. The number of spaces depends on the `iptables-save` version, and the names of some protocols
 * depend on whether /etc/protocols exists.
 */
function inOneForm(text: string): string {
  const spaced = text.includes("  ") ? text.replaceAll(/ {2,}/g, " ") : text;
  if (!spaced.startsWith("-p ip")) return spaced;
  return spaced.replace(/^-p ipencap /, "-p 4 ").replace(/^-p ipv6 /, "-p 41 ");
}

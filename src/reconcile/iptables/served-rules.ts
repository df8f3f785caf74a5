/**
 * Decides which rules may be written while the kernel rejects some chains of a Service. A jump requires its target
 * chain. A jump to a KUBE-FW- chain also requires that chain to be at least as strict as planned. Pure.
 */
import { type Chain, type ChainKey, chainKey, type Rule, type RuleSet } from "../../state/rule.ts";
import type { CachedRules } from "../observed/cached-rules.ts";

const firewallChain = /^KUBE-FW-/;

export class ServedRules {
  readonly #planned: ReadonlyMap<ChainKey, Chain>;
  readonly #cached: CachedRules;

  constructor({ chains }: RuleSet, cached: CachedRules) {
    this.#planned = new Map(chains.map((chain) => [chainKey(chain.table, chain.name), chain]));
    this.#cached = cached;
  }

  planned(key: ChainKey): Chain | undefined {
    return this.#planned.get(key);
  }

  /**
   * Returns the chain without the rules that must not be written now, or the same object if all rules can be written.
   */
  of(chain: Chain): Chain {
    const rejected = this.#cached.rejectedRules.get(chainKey(chain.table, chain.name));
    const isServed = (rule: Rule): boolean =>
      this.#hasTarget(chain, rule) && rejected?.has(this.#cached.text(rule)) !== true;
    if (chain.rules.every(isServed)) return chain;
    return { ...chain, rules: chain.rules.filter(isServed) };
  }

  /**
   * Names of KUBE-EXT- chains to which the current nat KUBE-SERVICES leads without the planned source range check. They
   * must be empty until KUBE-SERVICES can be written.
   */
  unguarded(): Set<string> {
    const services = this.#planned.get("nat KUBE-SERVICES");
    const present = new Set(this.#cached.texts("nat KUBE-SERVICES"));
    const unguarded = new Set<string>();
    for (const rule of services?.rules ?? []) {
      const name = targetOf(rule);
      if (name === undefined || !firewallChain.test(name)) continue;
      const external = name.replace(firewallChain, "KUBE-EXT-");
      const isPlanned = this.#planned.has(chainKey("nat", external));
      const past = this.#cached.text({ ...rule, target: { kind: "jump", chain: external } });
      const isOpen = present.has(this.#cached.text(rule)) && !this.#isStrict(name);
      if (isPlanned && (isOpen || present.has(past))) unguarded.add(external);
    }
    return unguarded;
  }

  #hasTarget({ table }: Chain, rule: Rule): boolean {
    const name = targetOf(rule);
    if (name === undefined || !this.#planned.has(chainKey(table, name))) return true;
    if (!this.#cached.has(chainKey(table, name))) return false;
    return !firewallChain.test(name) || this.#isStrict(name);
  }

  /** Whether the existing chain admits only clients that the planned chain admits. */
  #isStrict(name: string): boolean {
    const planned = new Set(
      this.#planned.get(chainKey("nat", name))?.rules.map((rule) => this.#cached.text(rule)),
    );
    const texts = this.#cached.texts(chainKey("nat", name)) ?? [];
    return texts.every((text) => planned.has(text));
  }
}

function targetOf({ target }: Rule): string | undefined {
  return target.kind === "jump" ? target.chain : undefined;
}

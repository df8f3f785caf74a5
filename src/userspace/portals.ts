import type { IpFamily } from "../base/ip.ts";
import type { Iptables, ObservedChain, RulesChange } from "../kernel/kernel.ts";
import type { Chain, Jump, RuleSet } from "../state/rule.ts";
import type { OpenListener } from "./open-listener.ts";
import { portalRules } from "./portal-rules.ts";
import { byKey } from "./service-listeners.ts";

type Rules = Pick<Iptables, "observe" | "apply" | "render">;

/** Keeps the rules of both families that lead to the listeners. */
export class Portals {
  readonly #iptables: Rules;
  readonly #families: readonly IpFamily[];
  /** Text of each chain as it was written last. */
  readonly #written = new Map<string, string>();
  /** Families whose rules were read since they may last have changed. */
  readonly #verified = new Set<IpFamily>();

  constructor(iptables: Rules, families: readonly IpFamily[]) {
    this.#iptables = iptables;
    this.#families = families;
  }

  /** The next sync reads what is there, and mends it. */
  forget(): void {
    this.#verified.clear();
  }

  /**
   * Writes the chains that changed. Resolves with whether it read the rules and found others than these. Rejects where the
   * kernel refuses; the next sync reads first.
   */
  async sync(open: readonly OpenListener[]): Promise<boolean> {
    const inOrder = open.toSorted((one, other) => byKey(one.wanted, other.wanted));
    let wereMissing = false;
    for (const family of this.#families) {
      if (await this.#syncFamily(family, inOrder)) wereMissing = true;
    }
    return wereMissing;
  }

  /** Removes every rule. */
  async remove(): Promise<void> {
    for (const family of this.#families) {
      const planned = portalRules(family, []);
      const { chains, jumps } = planned;
      const observed = await this.#iptables.observe(family, { planned });
      const present = jumps.filter((jump) => this.#has(family, observed, jump));
      const known = chains.filter((chain) => find(observed, chain) !== undefined);
      await this.#apply(family, [
        ...present.map((jump) => ({ kind: "remove-jump", jump }) as const),
        ...known.map(({ table, name }) => ({ kind: "remove-chain", table, name }) as const),
      ]);
    }
    this.#written.clear();
  }

  async #syncFamily(family: IpFamily, open: readonly OpenListener[]): Promise<boolean> {
    const rules = portalRules(family, open);
    const isRead = !this.#verified.has(family);
    const missing = !isRead ? [] : await this.#missingJumps(family, rules);
    const changed = rules.chains.filter(
      (chain) => this.#written.get(keyOf(family, chain)) !== this.#textOf(family, chain),
    );
    this.#verified.delete(family);
    await this.#apply(family, [
      ...changed.map((chain) => ({ kind: "write-chain", chain }) as const),
      ...missing.map((jump) => ({ kind: "insert-jump", jump }) as const),
    ]);
    for (const chain of changed)
      this.#written.set(keyOf(family, chain), this.#textOf(family, chain));
    this.#verified.add(family);
    return isRead && changed.length + missing.length > 0;
  }

  /** Notes what the chains hold, and gives the jumps that are not there. */
  async #missingJumps(family: IpFamily, rules: RuleSet): Promise<readonly Jump[]> {
    const observed = await this.#iptables.observe(family, { planned: rules });
    for (const chain of rules.chains) {
      const found = find(observed, chain)?.rules.map(({ text }) => text);
      if (found === undefined) this.#written.delete(keyOf(family, chain));
      else this.#written.set(keyOf(family, chain), found.join("\n"));
    }
    return rules.jumps.filter((jump) => !this.#has(family, observed, jump));
  }

  #has(family: IpFamily, observed: readonly ObservedChain[], { table, from, rule }: Jump): boolean {
    const wanted = this.#iptables.render(family, rule);
    const chain = find(observed, { table, name: from });
    return chain?.rules.some(({ text }) => text === wanted) ?? false;
  }

  #textOf(family: IpFamily, { rules }: Chain): string {
    return rules.map((rule) => this.#iptables.render(family, rule)).join("\n");
  }

  async #apply(family: IpFamily, changes: readonly RulesChange[]): Promise<void> {
    if (changes.length > 0) await this.#iptables.apply(family, changes);
  }
}

function keyOf(family: IpFamily, { table, name }: Pick<Chain, "table" | "name">): string {
  return `${family} ${table} ${name}`;
}

function find(
  observed: readonly ObservedChain[],
  { table, name }: Pick<Chain, "table" | "name">,
): ObservedChain | undefined {
  return observed.find((chain) => chain.table === table && chain.name === name);
}

import type { IpFamily } from "../../base/ip.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { diffRules } from "../../reconcile/kinds/diff-rules.ts";
import { cachedRulesAfter, cachedRulesOf } from "../../reconcile/kinds/rule-texts.ts";
import type { CachedRules } from "../../reconcile/observed/cached-state.ts";
import type { Rule, RuleSet } from "../../state/rule.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { byKey } from "../../userspace/service-listeners.ts";

type Rules = Pick<Iptables, "observe" | "apply" | "render">;

/** Keeps the rules of both families that lead to the listeners. */
export class Portals {
  readonly #iptables: Rules;
  readonly #families: readonly IpFamily[];
  /** As they were written or read last; absent: they may have changed since. */
  readonly #cached = new Map<IpFamily, CachedRules>();
  /** Rules were read and others found than these, since a sync that worked. */
  #wereMissing = false;

  constructor(iptables: Rules, families: readonly IpFamily[]) {
    this.#iptables = iptables;
    this.#families = families;
  }

  /** The next sync reads what is there, and mends it. */
  forget(): void {
    this.#cached.clear();
  }

  /**
   * Writes the chains that changed. Resolves with whether it read the rules and found others than these, at this sync or at
   * those before that were refused. Rejects where the kernel refuses; the next sync reads first.
   */
  async sync(open: readonly OpenListener[]): Promise<boolean> {
    const inOrder = open.toSorted((one, other) => byKey(one.wanted, other.wanted));
    for (const family of this.#families) {
      if (await this.#syncFamily(family, portalRules(family, inOrder))) this.#wereMissing = true;
    }
    const wereMissing = this.#wereMissing;
    this.#wereMissing = false;
    return wereMissing;
  }

  async #syncFamily(family: IpFamily, planned: RuleSet): Promise<boolean> {
    const render = (rule: Rule): string => this.#iptables.render(family, rule);
    const known = this.#cached.get(family);
    const cached =
      known ?? cachedRulesOf(await this.#iptables.observe(family, { planned }), planned, render);
    const changes = diffRules({ family, planned, cached, render });
    this.#cached.delete(family);
    if (changes.length > 0) await this.#iptables.apply(family, changes);
    this.#cached.set(family, cachedRulesAfter(planned, render));
    return known === undefined && changes.length > 0;
  }
}

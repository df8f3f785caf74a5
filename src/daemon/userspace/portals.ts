import type { IpFamily } from "../../base/ip.ts";
import { finish } from "../../base/time-slice.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import { diffRules } from "../../reconcile/kinds/diff-rules.ts";
import { type CachedRules, cachedRulesInSteps } from "../../reconcile/observed/cached-rules.ts";
import type { Rule, RuleSet } from "../../state/rule.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { byKey } from "../../userspace/service-listeners.ts";

type Rules = Pick<Iptables, "observe" | "apply" | "render">;

/** Maintains the rules of both families that redirect to the listeners. */
export class Portals {
  readonly #iptables: Rules;
  readonly #families: readonly IpFamily[];
  /** The rules as last written or read, without families whose rules may have changed since. */
  readonly #cached = new Map<IpFamily, CachedRules>();
  /** Whether rules have been read since the last successful sync and differed from the planned ones. */
  #wereMissing = false;

  constructor(iptables: Rules, families: readonly IpFamily[]) {
    this.#iptables = iptables;
    this.#families = families;
  }

  /** Makes the next sync read the rules and repair them. */
  forget(): void {
    this.#cached.clear();
  }

  /**
   * Writes the changed chains. Resolves with whether rules were read and differed from the plan, in this sync or in
   * failed syncs before it. Rejects if the kernel rejects a change; the next sync then reads the rules again.
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
    const known = this.#cached.get(family);
    const cached = known ?? (await this.#observe(family, planned));
    const changes = finish(diffRules({ family, planned, cached }));
    this.#cached.delete(family);
    if (changes.length > 0) await this.#iptables.apply(family, changes);
    for (const change of changes) cached.note(change);
    this.#cached.set(family, cached);
    return known === undefined && changes.length > 0;
  }

  async #observe(family: IpFamily, planned: RuleSet): Promise<CachedRules> {
    const observed = await this.#iptables.observe(family, { planned });
    const render = (rule: Rule): string => this.#iptables.render(family, rule);
    return finish(cachedRulesInSteps(observed, planned, render));
  }
}

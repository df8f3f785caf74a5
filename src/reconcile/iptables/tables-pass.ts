import type { IpFamily } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { RuleSet } from "../../state/rule.ts";
import { type ApplyContext, Pass } from "../apply/pass.ts";
import type { ChangePlan } from "../change-plan.ts";
import { diffRules, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import { restoreRules } from "../kinds/restore.ts";
import type { CachedRules } from "../observed/cached-rules.ts";
import type { Observer } from "../observed/observer.ts";
import { StagedWrite, type TablesWriteContext } from "./write-in-stages.ts";

export interface TablesPassContext
  extends ApplyContext,
    Pick<TablesWriteContext, "clock" | "sharedChains">,
    Pick<Observer, "observeRules"> {
  readonly family: IpFamily;
  beforeWrite(): Promise<void>;
}

/** Applies iptables mode's rules: in one restore, or in stages if the kernel rejects a rule. */
export class TablesPass extends Pass {
  readonly #context: TablesPassContext;

  constructor(context: TablesPassContext) {
    super(context);
    this.#context = context;
  }

  override async applyPlan({
    changes,
    deferred,
  }: Pick<ChangePlan, "changes" | "deferred">): Promise<void> {
    const wanted = this.#context.rules.get(this.#context.family);
    const [first] = [...changes, ...deferred.map(({ change }) => change)];
    if (wanted === undefined || first === undefined) return;
    const planned = changes as readonly PlannedRuleChange[];
    try {
      await this.#context.beforeWrite();
      await this.#write(planned, wanted, deferred.length > 0);
    } catch (error) {
      this.noteUnknown(planned.length > 0 ? planned : [first], error as Error);
    }
  }

  /**
   * `isAnyPending` says whether the retry of a rejected change is not due yet. If so, the planned rules cannot be
   * written in one restore.
   */
  async #write(
    planned: readonly PlannedRuleChange[],
    wanted: RuleSet,
    isAnyPending: boolean,
  ): Promise<void> {
    const { family, clock, kernel } = this.#context;
    const { iptables } = kernel;
    if (isAnyPending) return this.#writeInStages(planned, wanted);
    if ((await restoreRules(planned, iptables)) === undefined) {
      for (const change of planned) {
        this.#cached.note(change);
        this.outcomes.count(change.kind);
      }
      this.#cached.plan = wanted;
      return;
    }
    // Read the rules again: tables before the rejected one have already been written, and a change by a third party may
    // have caused the rejection.
    await this.#context.observeRules(family, wanted);
    const left = diffRules({ family, planned: wanted, cached: this.#cached });
    return this.#writeInStages(await inSlices(clock, left, "large"), wanted);
  }

  async #writeInStages(changes: readonly PlannedRuleChange[], wanted: RuleSet): Promise<void> {
    const { iptables } = this.#context.kernel;
    const write = new StagedWrite({ ...this.#context, iptables, wanted, cached: this.#cached });
    await write.run(changes);
    for (const { kind } of write.made) this.outcomes.count(kind);
    this.outcomes.refused.push(...write.rejected);
  }

  get #cached(): CachedRules {
    return this.#context.cached.rules.get(this.#context.family) as CachedRules;
  }
}

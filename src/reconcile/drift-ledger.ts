import type { Clock } from "../base/clock.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Drift } from "./drift.ts";
import { findDrift } from "./find-drift.ts";
import { exceptTouched } from "./held-repairs.ts";
import type { KnownRules, KnownState } from "./known-state.ts";
import { RepairGuard, thingOf } from "./repair-guard.ts";
import type { FoundDrift, ReportBuilder } from "./report.ts";
import type { SyncContext, SyncGoal, Work } from "./sync-context.ts";

/** What the drift of one sync is judged by. */
export interface DriftFacts {
  readonly goal: SyncGoal;
  readonly work: Work;
  readonly after: KnownState;
  /** Present where everything was observed, and not for the first time. */
  readonly comparison?: Comparison;
}

export interface Comparison {
  readonly before: KnownState;
  /** As the planned rules will be printed. */
  readonly wantedRules: ReadonlyMap<IpFamily, KnownRules>;
  /** Keys of virtual servers. */
  readonly ours: ReadonlySet<string>;
}

/** Keeps account of what others changed, and of the repairs that wait because others undo them. */
export class DriftLedger {
  readonly #clock: Clock;
  /** Nothing is repaired: no repair can be undone. */
  readonly #isObserveOnly: boolean;
  readonly #guard = new RepairGuard();
  /** Found by a look between syncs; the next sync repairs it. */
  readonly #found: Drift[] = [];

  constructor(clock: Clock, isObserveOnly: boolean) {
    this.#clock = clock;
    this.#isObserveOnly = isObserveOnly;
  }

  found(drifts: readonly Drift[]): void {
    this.#found.push(...drifts);
  }

  get hasStorms(): boolean {
    return this.#guard.storms.length > 0;
  }

  /** The repair of this thing waits. */
  isHeld(thing: string): boolean {
    return this.#guard.isHeld(thing, this.#clock.monotonicMs());
  }

  /** Counts and reports what others changed; gives the repairs that wait in this sync. */
  judge(
    { goal, work, after, comparison }: DriftFacts,
    report: ReportBuilder,
  ): SyncContext["isHeld"] {
    const drifts = this.#found.splice(0);
    if (comparison !== undefined) {
      drifts.push(...findDrift({ ...comparison, after, desired: goal.desired, work }));
    }
    const nowMs = this.#clock.monotonicMs();
    if (!this.#isObserveOnly) this.#guard.note(drifts, nowMs);
    const touched = goal.dirty === "all" ? goal.touched : goal.dirty;
    const isHeld = exceptTouched((thing) => this.#guard.isHeld(thing, nowMs), touched);
    const repairOf = (drift: Drift): FoundDrift["action"] =>
      isHeld(thingOf(drift)) ? "hold" : "repair";
    const actionOn = this.#isObserveOnly ? (): FoundDrift["action"] => "report" : repairOf;
    report.drift(drifts.map((drift) => ({ ...drift, action: actionOn(drift) })));
    report.storms(this.#guard.storms);
    return isHeld;
  }
}

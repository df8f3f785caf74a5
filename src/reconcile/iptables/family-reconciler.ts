import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { ServiceName } from "../../base/service-name.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import { chainKey, type Rule, type RuleSet, type TableName } from "../../state/rule.ts";
import type { OutcomeCollector } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import type { PlannedRuleChange } from "../kinds/diff-rules.ts";
import { subjectOf } from "../kinds/kinds.ts";
import { restoreRules } from "../kinds/restore.ts";
import type { Rejection } from "../status/rejection.ts";
import { StatusTable } from "../status/status-table.ts";
import { subjectKey } from "../subject.ts";
import type { CachedTables } from "./cached-tables.ts";
import { planEverything, planTouched } from "./plan-writes.ts";
import { type TablesWrite, writeInStages } from "./write-in-stages.ts";

/** The desired state of one family. */
export interface FamilyGoal {
  /** The complete rule set. Only requested if everything is compared or a change is rejected. */
  ruleSetInSteps(family: IpFamily): Iterator<unknown, RuleSet>;
  /** The chains that planning touched since the previous call. */
  takeTouched(family: IpFamily): Iterable<TouchedChain>;
}

interface PlannedWrites {
  /** Whether everything was compared. */
  readonly isFull: boolean;
  /** Computed before the first write. */
  readonly changes: readonly PlannedRuleChange[];
  readonly cached: CachedTables;
}

/** The result of one sync of one family. */
export interface FamilySync extends Omit<PlannedWrites, "cached"> {
  readonly family: IpFamily;
  /** False if rules could not be read, or if the outcome of a restore is unknown. */
  readonly hasWorked: boolean;
  readonly elapsedMs: number;
  /** Number of rules in the written chains, by table. */
  readonly writtenRules: ReadonlyMap<TableName, number>;
  /** Number of rules in all our chains, by table; empty if unknown. */
  readonly totalRules: ReadonlyMap<TableName, number>;
}

/** Everything is compared at least this often, even if no change is detected. */
const fullComparisonMs = 3_600_000;

/**
 * Brings one family's tables to the planned state with a single run of iptables-restore that contains the changed
 * chains. Everything is compared at startup, if rules may differ, if a rejected change is due, and after an unknown
 * outcome.
 */
export class FamilyReconciler {
  readonly #family: IpFamily;
  readonly #iptables: Iptables;
  readonly #clock: Clock;
  readonly #status = new StatusTable();
  /** If undefined, the next sync compares everything. */
  #cached: CachedTables | undefined;
  /** Generation of the tables after the last write. */
  #generation: number | undefined;
  #comparedAtMs = Number.NEGATIVE_INFINITY;

  constructor(family: IpFamily, iptables: Iptables, clock: Clock) {
    this.#family = family;
    this.#iptables = iptables;
    this.#clock = clock;
  }

  invalidate(): void {
    this.#cached = undefined;
  }

  get nextRetryMs(): number | undefined {
    return this.#status.nextRetryMs;
  }

  get rejections(): readonly Rejection[] {
    return this.#status.rejections;
  }

  /** Whether any program may have changed rules since our last write, or the last full comparison is too old. */
  async mayDiffer(): Promise<boolean> {
    if (this.#clock.monotonicMs() - this.#comparedAtMs >= fullComparisonMs) return true;
    const generation = await this.#iptables.readGeneration(this.#family);
    return generation === undefined || generation !== this.#generation;
  }

  /** Never rejects: failures are recorded in the outcomes. */
  async sync(goal: FamilyGoal, outcomes: OutcomeCollector, isDryRun: boolean): Promise<FamilySync> {
    const beganMs = this.#clock.monotonicMs();
    let planned: Omit<PlannedWrites, "cached"> = { isFull: true, changes: [] };
    let made: readonly PlannedRuleChange[] = [];
    let hasWorked = true;
    try {
      const first = await this.#plan(goal);
      planned = first;
      if (!isDryRun) ({ planned, made } = await this.#write(goal, first, outcomes));
    } catch (error) {
      hasWorked = false;
      this.#noteFailure(planned.changes, error as Error, outcomes);
    }
    for (const { kind } of made) outcomes.count(kind);
    const { isFull, changes } = planned;
    return {
      ...{ family: this.#family, isFull, changes, hasWorked },
      elapsedMs: this.#clock.monotonicMs() - beganMs,
      writtenRules: rulesIn(made),
      totalRules: this.#cached?.totals ?? new Map(),
    };
  }

  #noteFailure(changes: readonly Change[], error: Error, outcomes: OutcomeCollector): void {
    const [change] = changes;
    if (change === undefined) {
      outcomes.unread.push({ kind: "observe", subject: `${this.#family} iptables`, error });
    } else {
      const [first, count] = [subjectOf(change), changes.length];
      outcomes.unknown.push({ kind: change.kind, first, count, error, part: "rules" });
    }
  }

  /** In a full comparison, skips rejected changes that are not due yet. */
  async #plan(goal: FamilyGoal): Promise<PlannedWrites> {
    const family = this.#family;
    const touched = goal.takeTouched(family);
    const nowMs = this.#clock.monotonicMs();
    const isDue = (this.#status.nextRetryMs ?? Number.POSITIVE_INFINITY) <= nowMs;
    const render = (rule: Rule): string => this.#iptables.render(family, rule);
    if (this.#cached !== undefined && !isDue) {
      const cached = this.#cached;
      const changes = await inSlices(this.#clock, planTouched(family, touched, cached));
      return { isFull: false, changes, cached };
    }
    const planned = await inSlices(this.#clock, goal.ruleSetInSteps(family), "large");
    const observed = await this.#iptables.observe(family, { planned, hasOthers: true });
    const comparison = planEverything(family, planned, observed, render);
    const compared = await inSlices(this.#clock, comparison, "large");
    const isReady = (one: Change): boolean => !this.#status.isPending(subjectOf(one), nowMs);
    return { ...compared, isFull: true, changes: compared.changes.filter(isReady) };
  }

  /** The cache is invalid until the outcome is known. */
  async #write(
    goal: FamilyGoal,
    first: PlannedWrites,
    outcomes: OutcomeCollector,
  ): Promise<{ readonly planned: PlannedWrites } & Pick<TablesWrite, "made">> {
    const isAnyRejected = !this.#status.isEmpty;
    let [planned, made] = [first, first.changes];
    this.invalidate();
    if (isAnyRejected || (await restoreRules(made, this.#iptables)) !== undefined) {
      // Plan again: tables before the rejected one have been written, and a third party may have caused the
      // rejection.
      if (!isAnyRejected) planned = await this.#plan(goal);
      made = await this.#writeInStages(goal, planned, outcomes);
    } else planned.cached.note(made);
    await this.#noteWritten(planned, made);
    return { planned, made };
  }

  async #writeInStages(
    goal: FamilyGoal,
    planned: PlannedWrites,
    outcomes: OutcomeCollector,
  ): Promise<TablesWrite["made"]> {
    const write = await writeInStages(planned.changes, {
      ...{ family: this.#family, iptables: this.#iptables, clock: this.#clock },
      cached: planned.cached,
      wanted: await inSlices(this.#clock, goal.ruleSetInSteps(this.#family), "large"),
    });
    outcomes.refused.push(...write.rejected);
    this.#noteRejected(planned, write);
    return write.made;
  }

  async #noteWritten({ isFull, cached }: PlannedWrites, made: TablesWrite["made"]): Promise<void> {
    // If nothing was written or read, the current generation may include a third party's change.
    if (isFull || made.length > 0) {
      this.#generation = await this.#iptables.readGeneration(this.#family);
    }
    if (isFull) this.#comparedAtMs = this.#clock.monotonicMs();
    this.#cached = cached;
  }

  #noteRejected({ isFull, changes, cached }: PlannedWrites, { rejected }: TablesWrite): void {
    const nowMs = this.#clock.monotonicMs();
    const again = this.#status.reject(rejected, servicesOfRules, nowMs);
    const tried = new Set(changes.map((change) => subjectKey(subjectOf(change))));
    this.#status.endRejections((one) => {
      const { subject } = one;
      const isReduced =
        subject.type === "chain" &&
        cached.rejectedRules.has(chainKey(subject.table, subject.chainName));
      if (again.has(one) || isReduced) return false;
      return tried.has(subjectKey(subject)) || (isFull && !this.#status.isPending(subject, nowMs));
    });
  }
}

/** The Service that the comments of a chain name. */
function servicesOfRules(change: Change): readonly ServiceName[] {
  if (change.kind !== "chain-write") return [];
  for (const { matches } of change.chain.rules) {
    for (const match of matches) {
      const name =
        match.kind === "comment" ? /(?:^| )([^ /:]+\/[^ /:]+)/.exec(match.text)?.[1] : undefined;
      if (name !== undefined) return [name as ServiceName];
    }
  }
  return [];
}

function rulesIn(changes: readonly PlannedRuleChange[]): ReadonlyMap<TableName, number> {
  const counts = new Map<TableName, number>();
  for (const change of changes) {
    if (change.kind !== "chain-write") continue;
    const { table, rules } = change.chain;
    counts.set(table, (counts.get(table) ?? 0) + rules.length);
  }
  return counts;
}

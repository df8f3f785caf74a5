import type { Clock } from "../base/clock.ts";
import { earliest } from "../base/earliest.ts";
import type { IpAddress } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { inSlices } from "../base/time-slice.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import {
  type ApplyProgress,
  type ApplyTools,
  applyChanges,
  applyPlan,
} from "./apply/apply-plan.ts";
import { OutcomeCollector, type Outcomes } from "./apply/outcome.ts";
import { ConntrackCleaner, cleanConntrack } from "./apply/stale-flows.ts";
import type { ChangePlan } from "./change-plan.ts";
import { type Deferral, deferChanges } from "./defer.ts";
import { type PlannedChanges, planChanges } from "./diff/plan-changes.ts";
import { cachedRulesAfter } from "./diff/rule-texts.ts";
import { Drainer, noEnds } from "./drain/drainer.ts";
import { type DrainPolicy, type DrainStartTimes, noDrainStartTimes } from "./drain/drains.ts";
import { findDrift } from "./drift/find-drift.ts";
import { ManualWeights } from "./drift/manual-weights.ts";
import { RepairGuard } from "./drift/repair-guard.ts";
import { isRestriction } from "./limits.ts";
import { type CachedServers, CachedState, noteRightRules } from "./observed/cached-state.ts";
import { Differences } from "./observed/difference.ts";
import { Freshness } from "./observed/freshness.ts";
import { Observer } from "./observed/observer.ts";
import { ServersAhead } from "./observed/servers-ahead.ts";
import { Verification } from "./observed/verification.ts";
import { adoptServers } from "./ownership/adopt.ts";
import { withoutForeign } from "./ownership/contested-view.ts";
import {
  noOwnershipRecord,
  Ownership,
  type OwnershipRecord,
  type OwnershipView,
  readOnlyRecord,
} from "./ownership/ownership.ts";
import { joinReports, type RefusalReport, Refusals } from "./refusals.ts";
import {
  emptyReport,
  type Failure,
  joinOutcomes,
  type OutcomeReport,
  reportOf,
  type SyncReport,
} from "./report.ts";
import { isTouched, Scope } from "./scope.ts";
import { subjectKey, subjectOf } from "./subject.ts";
import type { SyncGoal } from "./sync-goal.ts";

export interface ReconcilerParts {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  /** If undefined, a restart does not know when drains began. */
  readonly drainStartTimes?: DrainStartTimes;
  /** If undefined, a restart knows only what the kernel's sets say. */
  readonly ownershipRecord?: OwnershipRecord;
  /** Nothing is written: each sync observes everything, and reports what it would change. */
  readonly isDryRun?: boolean;
}

/**
 * Brings the kernel to the desired state with the fewest writes: plans everything, then applies each change on its own. A
 * change that the kernel refuses is retried later and holds up nothing else; where the outcome of a request is
 * unknown, that part of the kernel is observed again.
 */
export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #cached = new CachedState();
  readonly #observer: Observer;
  readonly #drainer: Drainer;
  readonly #cleaner: ConntrackCleaner;
  readonly #ownership: Ownership;
  readonly #refusals = new Refusals();
  readonly #guard = new RepairGuard();
  readonly #manualWeights = new ManualWeights();
  readonly #freshness: Freshness;
  /** What the next sync compares; kept while the kernel cannot be read. */
  #scope = new Scope();
  readonly verification: Verification;
  readonly serversAhead: ServersAhead;
  #isFirst = true;
  #isInitialized = false;

  constructor(parts: ReconcilerParts) {
    const { kernel, clock, log } = parts;
    this.#parts = parts;
    this.serversAhead = new ServersAhead({ ipvs: kernel.ipvs, clock });
    this.#observer = new Observer(kernel, this.#cached, this.serversAhead);
    const startTimes = parts.drainStartTimes ?? noDrainStartTimes;
    this.#drainer = new Drainer({
      ...{ clock, log, startTimes, ipvs: kernel.ipvs },
      apply: async (changes, desired) => {
        const outcomes = await applyChanges(changes, this.#applyTools(desired));
        this.#freshness.noteUnknown(outcomes);
        return outcomes;
      },
    });
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
    const record = parts.ownershipRecord ?? noOwnershipRecord;
    this.#ownership = new Ownership(parts.isDryRun === true ? readOnlyRecord(record) : record);
    this.verification = new Verification(kernel, this.#cached, this.#observer);
    this.#freshness = new Freshness(this.#observer, this.verification);
  }

  /** True when the next sync must observe all or part of the kernel: at start, and after an unknown outcome. */
  get needsObservation(): boolean {
    return this.#freshness.isStale;
  }

  /** Something was found that a sync must repair. */
  get needsSync(): boolean {
    return this.needsObservation || this.#observer.hasDifferences;
  }

  /** Virtual servers as last observed, with the outcomes of our changes since; by key. */
  get cachedServers(): CachedServers {
    return this.#cached.virtualServers;
  }

  get drainer(): Pick<Drainer, "count" | "oldestAgeSeconds" | "drains"> {
    return this.#drainer;
  }

  /** Something waits for the next drain check. */
  get needsDrainCheck(): boolean {
    return this.#drainer.count > 0 || this.#cleaner.pending.length > 0;
  }

  /** Monotonic; when something that was refused or suppressed is to be retried. Undefined: nothing waits. */
  get nextRetryMs(): number | undefined {
    return earliest([this.#refusals.nextDueMs, this.#guard.nextDueMs]);
  }

  /** The next sync observes everything again. */
  invalidate(): void {
    this.#freshness.invalidate();
  }

  /** Compares kube-ipvs0, as just read, with the cache; `bound` undefined: there is no such link. */
  noteBound(bound: readonly IpAddress[] | undefined): void {
    this.#observer.noteBound(bound);
  }

  /** One pass. An observation that fails ends it before the first write. */
  async sync(goal: SyncGoal, onProgress?: ApplyProgress): Promise<SyncReport> {
    if (this.#parts.isDryRun === true) this.invalidate();
    this.#scope.include(goal.touched);
    this.#drainer.hasten(goal.touched.virtualServers);
    const failure = await this.#observe(goal);
    if (failure !== undefined) return { ...emptyReport, failures: [failure] };
    const differences = this.#takeDifferences();
    const scope = this.#scope;
    this.#scope = new Scope();
    const { desired, planned } = await this.#plan(goal, scope, differences);
    const drifts = this.#findDrift(planned, differences, desired, goal);
    const plan: ChangePlan = { ...planned, ...this.#defer(planned, goal, drifts) };
    if (this.#parts.isDryRun === true) {
      this.#ownership.update(this.#ownershipView(desired, goal), scope.virtualServers);
      return this.#report(plan, new OutcomeCollector(), noEnds, drifts);
    }
    await this.#ownership.recordAhead(this.#ownershipView(desired, goal), scope.virtualServers);
    this.#ownership.noteCreations(plan.changes);
    const outcomes = await applyPlan(plan, this.#applyTools(desired, goal.rules), onProgress);
    const ends = await this.#drainer.after(plan, outcomes, desired, goal.drain);
    this.#noteOutcomes(outcomes, { scope, planned, plan });
    this.#ownership.update(this.#ownershipView(desired, goal), scope.virtualServers);
    this.#drainer.keepStartTimes();
    this.#isFirst &&= outcomes.unknown.length > 0;
    return this.#report(plan, outcomes, ends, drifts);
  }

  /**
   * Removes real servers whose connections have ended, or whose time is up, and the UDP flows that this leaves. Costs what
   * drains, whatever else there is. `desired` says which endpoints still serve.
   */
  async checkDrains(desired: DesiredView, policy: DrainPolicy): Promise<SyncReport> {
    const leftovers = new OutcomeCollector();
    await cleanConntrack(this.#cleaner, [], this.#cached, leftovers);
    const ends = await this.#drainer.check(desired, policy);
    this.#drainer.keepStartTimes();
    const done = joinOutcomes(ends, reportOf(leftovers));
    return { ...emptyReport, ...done, refusals: this.#takeRefusals() };
  }

  /** Brings the cache up to date, and the scope with what was found to differ or is due again. */
  async #observe(goal: SyncGoal): Promise<Failure | undefined> {
    const failure = await this.#freshness.refresh(goal, this.#scope);
    if (failure !== undefined) return failure;
    this.#includeDue(this.#scope);
    return this.#freshness.refreshUnmade(goal, this.#scope);
  }

  /** What the first observation finds is no difference. */
  #takeDifferences(): Differences {
    const differences = this.#observer.takeDifferences();
    return this.#isInitialized ? differences : new Differences();
  }

  #includeDue(scope: Scope): void {
    const nowMs = this.#parts.clock.monotonicMs();
    if (this.#isInitialized) scope.includeDifferences(this.#observer.differences);
    for (const name of this.verification.takeOversizedSets()) scope.resizableSets.add(name);
    this.#refusals.includeIn(scope);
    for (const subject of this.#guard.takeWaiting(nowMs)) scope.includeSubject(subject);
  }

  async #plan(
    goal: SyncGoal,
    scope: Scope,
    differences: Differences,
  ): Promise<{ readonly desired: DesiredView; readonly planned: PlannedChanges }> {
    const { clock, kernel } = this.#parts;
    // A dry run has made nothing: what it finds, each time, is what a start would find.
    if (!this.#isInitialized || this.#parts.isDryRun === true) {
      await adoptServers(this.#ownership, this.#cached, goal, clock);
    }
    this.#isInitialized = true;
    const view = this.#ownershipView(goal.desired, goal);
    const desired = withoutForeign(view, this.#ownership, scope);
    const isOwned = (key: string): boolean => this.#ownership.isOwned(key);
    const mayBeOurs = this.#freshness.takeUnknownWrites();
    const input = { differences, desired, cached: this.cachedServers, mayBeOurs, isOwned };
    this.#manualWeights.update(goal.manualWeights, input);
    const planned = await inSlices(
      clock,
      planChanges({
        ...goal,
        desired,
        scope,
        cached: this.#cached,
        conflicts: this.#ownership.conflicts,
        isOwned,
        drains: this.#drainer.drains,
        keptWeights: this.#manualWeights,
        render: (family, rule) => kernel.iptables.render(family, rule),
        parse: (text) => kernel.iptables.parse(text),
        isSetRefused: (setName) =>
          this.#refusals.isWaiting(subjectKey({ type: "set", setName }), clock.monotonicMs()),
        isFirst: this.#isFirst,
      }),
      "large",
    );
    this.#drainer.endUnneeded(desired, scope.virtualServers);
    noteRightRules(this.#cached, planned, goal);
    return { desired, planned };
  }

  #ownershipView(desired: DesiredView, { ownership: policy }: SyncGoal): OwnershipView {
    return { desired, cached: this.#cached, policy };
  }

  #findDrift(
    { changes }: PlannedChanges,
    differences: Differences,
    desired: DesiredView,
    { rules }: SyncGoal,
  ): SyncReport["drifts"] {
    const drifts = findDrift({
      differences,
      changes,
      desired,
      isOwned: (key) => this.#ownership.isOwned(key),
      manualWeights: this.#manualWeights,
      wantedRules: (family) => {
        const planned = rules.get(family);
        const { iptables } = this.#parts.kernel;
        return planned && cachedRulesAfter(planned, (rule) => iptables.render(family, rule));
      },
    });
    const nowMs = this.#parts.clock.monotonicMs();
    if (this.#parts.isDryRun === true)
      return drifts.map((drift) => ({ ...drift, action: "report" }));
    this.#guard.note(drifts, nowMs);
    return drifts.map((drift) => {
      const isSuppressed = this.#guard.isSuppressed(subjectKey(drift.subject), nowMs);
      return { ...drift, action: isSuppressed ? "suppress" : "repair" };
    });
  }

  #defer(planned: PlannedChanges, { touched }: SyncGoal, drifts: SyncReport["drifts"]): Deferral {
    const nowMs = this.#parts.clock.monotonicMs();
    const lost = new Set(
      drifts
        .map(({ subject }) => subject)
        .filter(isRestriction)
        .map(subjectKey),
    );
    return deferChanges(planned.changes, {
      isAnyWaiting: !this.#refusals.isEmpty || !this.#guard.isEmpty,
      isTouched: (subject) => isTouched(subject, touched),
      // A restriction that was just lost is repaired, although the kernel rejected another change of it before.
      isRefused: (key) => this.#refusals.isWaiting(key, nowMs) && !lost.has(key),
      isSuppressed: (key) => this.#guard.isSuppressed(key, nowMs),
      impossible: planned.impossible.map(({ change }) => change),
    });
  }

  #takeRefusals(): RefusalReport {
    return joinReports(this.#refusals.takeReport(), this.#drainer.takeRefusals());
  }

  /** `rules` absent: none are written, and what depends on them is not asked for. */
  #applyTools(desired: DesiredView, rules: SyncGoal["rules"] = new Map()): ApplyTools {
    const { kernel, clock } = this.#parts;
    return {
      ...{ kernel, desired, rules, cached: this.#cached, cleaner: this.#cleaner },
      render: (family, rule) => kernel.iptables.render(family, rule),
      distrusted: this.#guard.distrusted(clock.monotonicMs()),
    };
  }

  #noteOutcomes(
    outcomes: Outcomes,
    context: { readonly scope: Scope; readonly planned: PlannedChanges; readonly plan: ChangePlan },
  ): void {
    const { scope, planned, plan } = context;
    this.#freshness.noteUnknown(outcomes);
    this.#freshness.noteContradictions(outcomes);
    if (outcomes.unknown.length > 0) {
      for (const change of outcomes.blocked) this.#scope.includeSubject(subjectOf(change));
    }
    const nowMs = this.#parts.clock.monotonicMs();
    const impossible = planned.impossible.filter(
      ({ change }) => !this.#refusals.isWaiting(subjectKey(subjectOf(change)), nowMs),
    );
    const refused = [...outcomes.refused, ...impossible];
    const waiting = [...outcomes.refused, ...plan.deferred].map(({ change }) => change);
    for (const change of [...waiting, ...outcomes.blocked]) {
      if (change.kind === "virtual-server-create") this.#ownership.noteNotCreated(change.key);
    }
    this.#refusals.note({ ...outcomes, refused }, { scope, planned: planned.changes, plan }, nowMs);
  }

  #report(
    plan: ChangePlan,
    outcomes: Outcomes,
    ends: OutcomeReport,
    drifts: SyncReport["drifts"],
  ): SyncReport {
    return {
      plan,
      ...joinOutcomes(reportOf(outcomes), ends),
      refusals: this.#takeRefusals(),
      foreignServers: [...this.#ownership.foreign],
      conflicts: plan.conflicts,
      possiblyOwned: this.#ownership.possiblyOwned,
      drifts,
      reconcileConflicts: this.#guard.conflicts,
      manualWeights: this.#manualWeights.all,
    };
  }
}

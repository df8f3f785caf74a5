import type { Clock } from "../base/clock.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { inSlices } from "../base/time-slice.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import type { TableName } from "../state/rule.ts";
import type { ServerKey } from "../state/virtual-server.ts";
import { type ApplyContext, type ApplyProgress, Pass } from "./apply/pass.ts";
import { type ChangePlan, servicesOfChange } from "./change-plan.ts";
import { Drainer } from "./drain/drainer.ts";
import { type DrainPolicy, type DrainStartTimes, noDrainStartTimes } from "./drain/drains.ts";
import { findDrift } from "./find-drift.ts";
import { ConntrackCleaner, cleanConntrack, cleanFlows } from "./kinds/stale-flows.ts";
import { KnownRanges } from "./kinds/stale-range-flows.ts";
import { type CachedServers, CachedState, noteRightRules } from "./observed/cached-state.ts";
import { Differences } from "./observed/difference.ts";
import { Freshness } from "./observed/freshness.ts";
import { type ObservedPart, Observer, observedParts } from "./observed/observer.ts";
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
import { planChanges } from "./plan-changes.ts";
import { Relations } from "./relations.ts";
import { emptyReport, type Failure, reportOf, type SyncReport } from "./report.ts";
import { Scope } from "./scope.ts";
import { isWeightKept, manualWeights, updateManualWeights } from "./status/manual-weights.ts";
import { distrusted, isBackingOff, noteDrifts, reconcileConflicts } from "./status/repairs.ts";
import { StatusTable } from "./status/status-table.ts";
import type { Subject } from "./subject.ts";
import type { SyncGoal } from "./sync-goal.ts";

export interface ReconcilerDependencies {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  /** If undefined, drain start times are unknown after a restart. */
  readonly drainStartTimes?: DrainStartTimes;
  /** If undefined, ownership after a restart is derived from the kernel's sets alone. */
  readonly ownershipRecord?: OwnershipRecord;
  /** If true, nothing is written. Each sync observes everything and reports the changes that it would make. */
  readonly isDryRun?: boolean;
  /** The parts of the kernel state to read and write. If undefined, all parts are read and written. */
  readonly parts?: readonly ObservedPart[];
  /** Applies iptables mode's rules; see {@link TablesPass}. */
  readonly newPass?: (context: ApplyContext & Pick<Observer, "observeRules">) => Pass;
}

/**
 * Brings the kernel to the desired state with as few writes as possible. It plans all changes first and then applies
 * them. A change that the kernel rejects is retried later and does not delay other changes. If the outcome of a request
 * is unknown, that part of the kernel state is observed again.
 */
export class Reconciler {
  readonly #dependencies: ReconcilerDependencies;
  readonly #cached = new CachedState();
  readonly #observer: Observer;
  readonly #drainer: Drainer;
  readonly #cleaner: ConntrackCleaner;
  readonly #ranges = new KnownRanges();
  readonly #ownership: Ownership;
  readonly #status = new StatusTable();
  readonly #freshness: Freshness;
  /** The keys that the next sync compares. They are kept as long as the kernel cannot be read. */
  #scope = new Scope();
  readonly verification: Verification;
  readonly serversAhead: ServersAhead;
  #isFirst = true;
  #isInitialized = false;

  constructor(dependencies: ReconcilerDependencies) {
    const { kernel, clock, log } = dependencies;
    this.#dependencies = dependencies;
    this.serversAhead = new ServersAhead(kernel.ipvs, clock);
    this.#observer = new Observer(dependencies, this.#cached, this.serversAhead);
    const startTimes = dependencies.drainStartTimes ?? noDrainStartTimes;
    this.#drainer = new Drainer({
      ...{ clock, log, startTimes, ipvs: kernel.ipvs },
      ...{ cached: this.#cached, status: this.#status },
    });
    this.#cleaner = new ConntrackCleaner(kernel.conntrack, clock);
    const record = dependencies.ownershipRecord ?? noOwnershipRecord;
    this.#ownership = new Ownership(
      dependencies.isDryRun === true ? readOnlyRecord(record) : record,
    );
    this.verification = new Verification(kernel, this.#cached, this.#observer);
    this.#freshness = new Freshness(this.#observer, this.verification, dependencies.parts);
  }

  /** Whether the next sync must observe all or part of the kernel: at startup, and after an unknown outcome. */
  get needsObservation(): boolean {
    return this.#freshness.isStale;
  }

  /** Whether there is something that a sync must repair. */
  get needsSync(): boolean {
    return this.needsObservation || this.#observer.hasDifferences;
  }

  /** Virtual servers by key, as last observed and updated with the outcomes of our changes. */
  get cachedServers(): CachedServers {
    return this.#cached.virtualServers;
  }

  /**
   * Whether a resource of this goal has all its dependencies, as last observed or written. A change with an unknown
   * outcome is treated as not made. Undefined before the first observation.
   */
  canExist(
    subject: Subject,
    { desired, rules }: Pick<SyncGoal, "desired" | "rules">,
  ): boolean | undefined {
    if (!this.#isInitialized) return undefined;
    const nowMs = this.#dependencies.clock.monotonicMs();
    const view = { desired, rules, cached: this.#cached };
    return new Relations({ ...view, distrusted: distrusted(this.#status, nowMs) }).canStay(subject);
  }

  /** Number of rules in our chains, by table. Empty if unknown. */
  ruleTotals(family: IpFamily): ReadonlyMap<TableName, number> {
    return (
      (this.needsObservation ? undefined : this.#cached.rules.get(family))?.totals ?? new Map()
    );
  }

  get drainer(): Pick<Drainer, "count" | "oldestAgeSeconds" | "drains"> {
    return this.#drainer;
  }

  /** Whether the next drain check has work to do. */
  get needsDrainCheck(): boolean {
    return this.#drainer.count > 0 || this.#cleaner.pending.length > 0;
  }

  /** When a pending change is retried (monotonic). Undefined if none is pending. */
  get nextRetryMs(): number | undefined {
    return this.#status.nextRetryMs;
  }

  /** Makes the next sync observe everything. */
  invalidate(): void {
    this.#freshness.invalidate();
  }

  /** Compares the current addresses of kube-ipvs0 with the cache. `bound` is undefined if the link does not exist. */
  noteBound(bound: readonly IpAddress[] | undefined): void {
    this.#observer.noteBound(bound);
  }

  /** Runs one sync. If an observation fails, the sync ends before the first write. */
  async sync(goal: SyncGoal, onProgress?: ApplyProgress): Promise<SyncReport> {
    if (this.#dependencies.isDryRun === true) this.invalidate();
    this.#scope.include(goal.touched);
    this.#status.hastenDrainEnds(goal.touched.virtualServers);
    const failures = await this.#observe(goal);
    // A clean-up that cannot read the virtual servers keeps what identifies and restricts them.
    const isRequired = ({ subject }: Failure): boolean =>
      goal.cleanUp === undefined || subject === "servers";
    if (failures.some(isRequired)) return { ...emptyReport, failures };
    const differences = this.#takeDifferences();
    const scope = this.#scope;
    this.#scope = new Scope();
    const { desired, planned } = await this.#plan(goal, scope, differences);
    const drifts = this.#findDrift(planned, differences);
    const plan = this.#defer(planned, goal);
    const pass = this.#newPass(desired, goal.rules);
    const view = this.#ownershipView(desired, goal);
    if (this.#dependencies.isDryRun === true) {
      this.#ownership.update(view, scope.virtualServers);
      return this.#report(plan, pass, drifts, failures);
    }
    await this.#ownership.recordAhead(view, scope.virtualServers);
    this.#ownership.noteCreations(plan.changes);
    await pass.applyPlan(plan, onProgress);
    await this.#drainer.after(plan, pass, desired, goal.drain);
    await this.#cleanRanges(desired, pass);
    this.#noteOutcomes(pass, plan);
    this.#ownership.update(view, scope.virtualServers);
    this.#drainer.keepStartTimes();
    this.#isFirst &&= pass.outcomes.unknown.length > 0;
    return this.#report(plan, pass, drifts, failures);
  }

  /**
   * Removes real servers whose drain has ended, and the UDP flows to them. The cost depends only on the number of
   * drains. `desired` determines which endpoints are still serving.
   */
  async checkDrains(desired: DesiredView, policy: DrainPolicy): Promise<SyncReport> {
    const pass = this.#newPass(desired);
    const { outcomes } = pass;
    await cleanConntrack(this.#cleaner, [], this.#cached, outcomes);
    await this.#drainer.check(pass, desired, policy);
    await this.#cleanRanges(desired, pass);
    this.#freshness.noteUnknown(outcomes);
    // Former Services need not be looked up, because a virtual server that no Service desires is removed with all its
    // real servers.
    const nowMs = this.#dependencies.clock.monotonicMs();
    this.#status.reject(outcomes.refused, servicesOfChange(desired), nowMs);
    this.#drainer.keepStartTimes();
    return { ...emptyReport, ...reportOf(outcomes), rejections: this.#status.rejections };
  }

  async #cleanRanges(desired: DesiredView, { outcomes }: Pass): Promise<void> {
    const checks = this.#ranges.changed(desired, this.#cached);
    if (checks.length > 0) await cleanFlows(this.#cleaner, checks, outcomes);
  }

  /** Updates the cache, and adds to the scope everything that differs or is due for a retry. */
  async #observe(goal: SyncGoal): Promise<readonly Failure[]> {
    const failures = await this.#freshness.refresh(goal, this.#scope);
    if (failures.length > 0) return failures;
    this.#includeDue(this.#scope);
    const failure = await this.#freshness.refreshUnmade(goal, this.#scope);
    return failure === undefined ? [] : [failure];
  }

  /** Returns the differences since the last call. Those that the first observation finds are ignored. */
  #takeDifferences(): Differences {
    const differences = this.#observer.takeDifferences();
    return this.#isInitialized ? differences : new Differences();
  }

  #includeDue(scope: Scope): void {
    const nowMs = this.#dependencies.clock.monotonicMs();
    if (this.#isInitialized) scope.includeDifferences(this.#observer.differences);
    for (const name of this.verification.takeOversizedSets()) scope.resizableSets.add(name);
    this.#status.includeIn(scope, nowMs);
  }

  async #plan(
    goal: SyncGoal,
    scope: Scope,
    differences: Differences,
  ): Promise<{ readonly desired: DesiredView; readonly planned: ChangePlan }> {
    const { clock, kernel } = this.#dependencies;
    // A dry run makes no changes, so every sync classifies the virtual servers like the first sync.
    if (!this.#isInitialized || this.#dependencies.isDryRun === true) {
      await adoptServers(this.#ownership, this.#cached, goal, clock);
    }
    this.#isInitialized = true;
    const view = this.#ownershipView(goal.desired, goal);
    const desired = withoutForeign(view, this.#ownership, scope);
    const isOwned = (key: ServerKey): boolean => this.#ownership.isOwned(key);
    const mayBeOurs = this.#freshness.takeUnknownWrites();
    const input = { differences, desired, cached: this.cachedServers, mayBeOurs, isOwned };
    updateManualWeights(this.#status, goal.manualWeights, input);
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
        isWeightKept: (key, planned, present) => isWeightKept(this.#status, key, planned, present),
        parts: this.#dependencies.parts ?? observedParts,
        parse: (text) => kernel.iptables.parse(text),
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

  #findDrift({ changes }: ChangePlan, differences: Differences): SyncReport["drifts"] {
    const drifts = findDrift(changes, differences, (key) => this.#ownership.isOwned(key));
    const nowMs = this.#dependencies.clock.monotonicMs();
    if (this.#dependencies.isDryRun === true)
      return drifts.map((drift) => ({ ...drift, action: "report" }));
    const isNotified = this.#dependencies.kernel.watchTables !== undefined;
    noteDrifts(this.#status, drifts, nowMs, isNotified);
    return drifts.map((drift) => {
      const isSuppressed = isBackingOff(this.#status, drift.subject, nowMs);
      return { ...drift, action: isSuppressed ? "suppress" : "repair" };
    });
  }

  #defer(planned: ChangePlan, { touched }: SyncGoal): ChangePlan {
    const nowMs = this.#dependencies.clock.monotonicMs();
    return { ...planned, ...this.#status.defer(planned.changes, touched, nowMs) };
  }

  /** Creates a pass. Without `rules`, it writes no rules and makes no changes that depend on rules. */
  #newPass(desired: DesiredView, rules: SyncGoal["rules"] = new Map()): Pass {
    const { kernel, clock, newPass = (context) => new Pass(context) } = this.#dependencies;
    return newPass({
      ...{ kernel, desired, rules, cached: this.#cached, cleaner: this.#cleaner },
      observeRules: (family, planned) => this.#observer.observeRules(family, planned),
      distrusted: distrusted(this.#status, clock.monotonicMs()),
    });
  }

  #noteOutcomes({ outcomes }: Pass, plan: ChangePlan): void {
    this.#freshness.noteUnknown(outcomes);
    // In iptables mode, the pass itself rereads the rules after a rejection.
    if (this.#dependencies.newPass === undefined) this.#freshness.noteContradictions(outcomes);
    const notMade = [...outcomes.refused, ...plan.deferred].map(({ change }) => change);
    for (const change of [...notMade, ...outcomes.blocked]) {
      if (change.kind === "virtual-server-create") this.#ownership.noteNotCreated(change.key);
    }
    this.#status.note(outcomes, plan, this.#dependencies.clock.monotonicMs());
  }

  #report(
    plan: ChangePlan,
    { outcomes }: Pass,
    drifts: SyncReport["drifts"],
    unread: readonly Failure[],
  ): SyncReport {
    const found = reportOf(outcomes);
    return {
      plan,
      ...found,
      failures: [...unread, ...found.failures],
      rejections: this.#status.rejections,
      foreignServers: [...this.#ownership.foreign],
      conflicts: plan.conflicts,
      possiblyOwned: this.#ownership.possiblyOwned,
      drifts,
      reconcileConflicts: reconcileConflicts(this.#status),
      manualWeights: manualWeights(this.#status),
    };
  }
}

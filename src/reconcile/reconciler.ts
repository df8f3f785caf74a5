import type { Clock } from "../base/clock.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { none } from "../base/none.ts";
import { sameSet } from "../base/same-set.ts";
import { inSlices } from "../base/time-slice.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DesiredState } from "../plan/desired-state.ts";
import type { RuleSet } from "../state/rule.ts";
import { isAsKnown } from "./confirm.ts";
import { withAddressesOf, withoutServers } from "./desired-view.ts";
import { knownRulesAfter } from "./diff-rules.ts";
import { Drainer } from "./drainer.ts";
import { type DrainAges, type DrainPolicy, noDrainAges } from "./drains.ts";
import type { Drift } from "./drift.ts";
import { type Comparison, DriftLedger } from "./drift-ledger.ts";
import { driftOfRules } from "./drift-of-rules.ts";
import { FlowSweeper } from "./flow-sweeper.ts";
import { keepHeldServers, serversToWrite, withoutHeld } from "./held-repairs.ts";
import { type KnownRules, KnownState } from "./known-state.ts";
import { lostSets } from "./lost-state.ts";
import { observe, observeRules } from "./observe.ts";
import { isContested, type OwnershipFacts, type OwnershipPolicy } from "./ownership.ts";
import { thingOf } from "./repair-guard.ts";
import { ReportBuilder, type SyncReport } from "./report.ts";
import { ServerMemory } from "./server-memory.ts";
import { runStep, type Step, stepsWith } from "./steps.ts";
import type { SyncContext, SyncGoal, SyncTools, Work } from "./sync-context.ts";
import { planWork } from "./work.ts";

export interface ReconcilerParts {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absent: a restart knows no ages. */
  readonly drainAges?: DrainAges;
}

export interface ReconcilerOptions {
  readonly ownership: OwnershipPolicy;
  readonly drain: DrainPolicy;
  /**
   * Given a kernel that takes writes without doing anything: each sync looks at everything and reports what
   * it would change.
   */
  readonly isObserveOnly?: boolean;
}

/**
 * Brings the kernel to the desired state with the fewest writes. Nothing stops at the first failure; what
 * failed is in the report, and the sync after it begins with a full observation.
 */
export class Reconciler {
  readonly #kernel: Kernel;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #options: ReconcilerOptions;
  readonly #sweeper = new FlowSweeper();
  readonly #drainer: Drainer;
  readonly #steps: readonly Step[];
  readonly #memory = new ServerMemory();
  readonly #ledger: DriftLedger;
  #contested: ReadonlySet<string> = new Set();
  /** As planned for the sync before. */
  #rules: SyncGoal["rules"] = new Map();
  /** Generations in which the rules of a family were found right. */
  readonly #rightRules = new Map<IpFamily, number | undefined>();
  /** As they were when everything was compared last. */
  #nodeAddresses: ReadonlySet<IpAddress> = new Set();
  #known = new KnownState();
  #needsObservation = true;
  #hasObserved = false;
  #isFirst = true;

  constructor(parts: ReconcilerParts, options: ReconcilerOptions) {
    const { kernel, clock, log, drainAges: ages = noDrainAges } = parts;
    this.#kernel = kernel;
    this.#clock = clock;
    this.#log = log;
    this.#options = options;
    this.#ledger = new DriftLedger(clock, this.#isRehearsal);
    this.#drainer = new Drainer({ clock, log, ages, flows: this.#sweeper }, options.drain);
    this.#steps = stepsWith(this.#drainer, this.#sweeper);
  }

  /** True when the next sync must look at everything: at start and after a failure. */
  get needsObservation(): boolean {
    return this.#needsObservation;
  }

  get drainer(): Pick<Drainer, "count" | "oldestAgeSeconds"> {
    return this.#drainer;
  }

  /** Something waits for the next look at the drains. */
  get needsDrainCheck(): boolean {
    return this.#drainer.count > 0 || this.#sweeper.isPending;
  }

  /**
   * Reads everything and compares it with what is known: where nothing differs, a full sync would find nothing to
   * do. Otherwise the next sync looks at everything. `nodeAddresses`: as just read. What cannot be read is not
   * confirmed: the full sync that follows tells why.
   */
  async confirm(nodeAddresses: ReadonlySet<IpAddress>): Promise<boolean> {
    if (this.#needsObservation || this.#isRehearsal || this.#ledger.hasStorms) return false;
    if (this.#contested.size > 0 || !sameSet(this.#nodeAddresses, nodeAddresses)) {
      this.#needsObservation = true;
      return false;
    }
    const isConfirmed = await this.#isAsKnown().catch(() => false);
    this.#needsObservation ||= !isConfirmed;
    return isConfirmed;
  }

  /** What is known may be wrong: the next sync looks at everything. */
  doubt(): void {
    this.#needsObservation = true;
  }

  /** One pass. An observation that fails ends it before the first write. */
  async sync(goal: SyncGoal): Promise<SyncReport> {
    const report = new ReportBuilder();
    const isFull = this.#isRehearsal || goal.dirty === "all" || this.#needsObservation;
    const before = this.#known;
    if (isFull && !(await this.#observe(goal, report))) return report.build();
    this.#rules = goal.rules;
    const plan = await this.#plan(goal, isFull);
    if (isFull) {
      this.#nodeAddresses = goal.nodeAddresses;
      report.foreign(plan.work.foreignServers, [...this.#contested]);
    }
    const comparison = isFull && this.#hasObserved ? this.#comparison(before, goal) : undefined;
    const facts = { ...plan, after: this.#known, ...(comparison && { comparison }) };
    const isHeld = this.#ledger.judge(facts, report);
    const work = isFull && this.#ledger.hasStorms ? withoutHeld(plan.work, isHeld) : plan.work;
    const context = { ...this.#context(report), goal: plan.goal, work, isHeld };
    await this.#runSteps({ ...context, isFirst: this.#isFirst });
    this.#noteOutcome(plan.work, report, isFull);
    return report.build();
  }

  /**
   * Compares kube-ipvs0 with what is known of it. Our own writes tell the watcher too: only where
   * somebody else's did, the next sync looks at everything.
   */
  noteBound(bound: readonly IpAddress[] | undefined): void {
    if (this.#ledger.isHeld(thingOf({ kind: "link", subject: this.#kernel.link.name }))) return;
    const { addresses, hasLink } = this.#known;
    const minded = (all: Iterable<IpAddress>): readonly IpAddress[] =>
      [...all].filter((address) => !this.#isAddressHeld(address));
    const [found, expected] = this.#ledger.hasStorms
      ? [minded(bound ?? none), minded(addresses).length]
      : [bound ?? none, addresses.size];
    const isSame =
      hasLink === (bound !== undefined) &&
      found.length === expected &&
      found.every((address) => addresses.has(address));
    if (!isSame) this.#needsObservation = true;
  }

  /**
   * Compares the headers of our sets with what is known of them; gives the names of those that differ. The
   * next sync looks at everything then.
   */
  async checkSets(): Promise<readonly string[]> {
    if (this.#needsObservation) return [];
    const lost = lostSets(await this.#kernel.ipSets.listSets(), this.#known);
    this.#needsObservation ||= lost.length > 0;
    return lost;
  }

  /**
   * Reads our chains and jumps, unless nobody changed a rule since they were found right; gives those that
   * differ. The next sync writes them again.
   */
  async checkRules(): Promise<readonly string[]> {
    if (this.#needsObservation) return [];
    const lost = new Set<string>();
    for (const [family, planned] of this.#rules) {
      const generation = await this.#kernel.iptables.readGeneration(family);
      if (generation !== undefined && generation === this.#rightRules.get(family)) continue;
      const drifts = await this.#findRuleDrift(family, planned);
      this.#rightRules.set(family, drifts.length === 0 ? generation : undefined);
      for (const { subject } of drifts) lost.add(subject);
    }
    // Who took rules away may have taken sets: rules cannot be written before those they name.
    return lost.size === 0 ? [] : [...lost, ...(await this.checkSets())];
  }

  /**
   * Removes real servers whose connections have ended, or whose time is up, and the UDP flows that this
   * leaves. Costs what drains, whatever else there is. `desired` says which endpoints still serve.
   */
  async checkDrains(desired: DesiredState): Promise<SyncReport> {
    const report = new ReportBuilder();
    const context = this.#context(report);
    try {
      await this.#drainer.check(context, desired);
    } catch (error) {
      report.fail("real-server-remove", "draining real servers", error);
    }
    try {
      await this.#sweeper.sweep(context);
    } catch (error) {
      report.fail("flow-remove", "stale UDP flows", error);
    }
    this.#needsObservation ||= report.hasFailures;
    return report.build();
  }

  async #isAsKnown(): Promise<boolean> {
    if (!(await isAsKnown(this.#kernel, this.#known))) return false;
    return (await this.checkRules()).length === 0;
  }

  async #findRuleDrift(family: IpFamily, planned: RuleSet): Promise<readonly Drift[]> {
    const after = await observeRules(this.#kernel.iptables, family, planned);
    const before = this.#known.rules.get(family);
    const wanted = this.#printed(family, planned);
    const drifts = driftOfRules(family, { before, after, wanted });
    if (drifts.length > 0) this.#known.rules.set(family, after);
    this.#ledger.found(drifts);
    return drifts;
  }

  /** What this sync is to reach, without what others have, and the work that it takes. */
  async #plan(goal: SyncGoal, isFull: boolean): Promise<Pick<SyncContext, "goal" | "work">> {
    const facts = this.#ownershipFacts(goal);
    if (isFull) {
      this.#contested = await inSlices(this.#clock, findContested(goal, this.#known, facts));
    }
    const effective = this.#effective(goal, isFull);
    const all = { ...facts, contested: this.#contested };
    const work = await inSlices(this.#clock, planWork(effective, this.#known, all));
    return { goal: effective, work };
  }

  #noteOutcome(work: Work, report: ReportBuilder, isFull: boolean): void {
    this.#hasObserved = true;
    if (isFull) this.#memory.noteAll(this.#known, work);
    else this.#memory.noteChanged(this.#known, work);
    for (const key of report.takenServers) this.#memory.noteTaken(key);
    this.#isFirst &&= report.hasFailures;
    this.#needsObservation = report.hasFailures;
  }

  async #runSteps(context: SyncContext): Promise<void> {
    if (this.#isRehearsal) return this.#rehearse(context);
    const found = this.#ledger.hasStorms ? serversToWrite(context) : new Map();
    for (const step of this.#steps) await runStep(step, context);
    keepHeldServers(context.known, found, context.isHeld);
  }

  /** All steps on a copy of what is known: nothing of it remains, nothing of it is told but its report. */
  async #rehearse(context: SyncContext): Promise<void> {
    const sweeper = new FlowSweeper();
    const parts = { clock: this.#clock, log: silentLogger, ages: noDrainAges, flows: sweeper };
    const steps = stepsWith(new Drainer(parts, this.#options.drain), sweeper);
    const rehearsal = { ...context, known: context.known.clone(), log: silentLogger };
    for (const step of steps) await runStep(step, { ...rehearsal, isFirst: false });
  }

  #comparison(before: KnownState, { rules }: SyncGoal): Comparison {
    const wantedRules = new Map<IpFamily, KnownRules>();
    for (const [family, planned] of rules) wantedRules.set(family, this.#printed(family, planned));
    return { before, wantedRules, ours: this.#memory.ours };
  }

  #isAddressHeld(address: IpAddress): boolean {
    return this.#ledger.isHeld(thingOf({ kind: "address", subject: address }));
  }

  get #isRehearsal(): boolean {
    return this.#options.isObserveOnly === true;
  }

  #printed(family: IpFamily, planned: RuleSet): KnownRules {
    return knownRulesAfter(planned, (rule) => this.#kernel.iptables.render(family, rule));
  }

  /** The goal without what others have. */
  #effective(goal: SyncGoal, isFull: boolean): SyncGoal {
    const { desired, dirty } = goal;
    const isPartial = dirty !== "all" && !isFull;
    return {
      ...goal,
      ...(dirty === "all" ? {} : { touched: dirty }),
      dirty: isPartial ? withAddressesOf(dirty, desired, this.#contested) : "all",
      desired: withoutServers(desired, this.#contested),
    };
  }

  #ownershipFacts({ nodeAddresses }: SyncGoal): OwnershipFacts {
    const { ours, foreign } = this.#memory;
    return { policy: this.#options.ownership, nodeAddresses, ours, foreign };
  }

  #context(report: ReportBuilder): SyncTools {
    const [kernel, clock, log] = [this.#kernel, this.#clock, this.#log];
    return { kernel, clock, log, known: this.#known, report };
  }

  async #observe(goal: SyncGoal, report: ReportBuilder): Promise<boolean> {
    try {
      this.#known = await observe(this.#kernel, goal);
      return true;
    } catch (error) {
      report.fail("observe", "kernel state", error);
      this.#needsObservation = true;
      return false;
    }
  }
}

/** Before the first write of a sync: our own entries would say that everything is ours. */
function* findContested(
  { desired }: SyncGoal,
  known: KnownState,
  facts: OwnershipFacts,
): Generator<void, ReadonlySet<string>> {
  const contested = new Set<string>();
  for (const key of desired.virtualServerKeys()) {
    if (isContested(key, known, facts)) contested.add(key);
    yield;
  }
  return contested;
}

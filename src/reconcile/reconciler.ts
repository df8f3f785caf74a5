import type { Clock } from "../base/clock.ts";
import type { IpAddress } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import { sameSet } from "../base/same-set.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DesiredState } from "../plan/desired-state.ts";
import { withAddressesOf, withoutServers } from "./desired-view.ts";
import { Drainer } from "./drainer.ts";
import { type DrainAges, type DrainPolicy, noDrainAges } from "./drains.ts";
import { addEntries, bindAddresses, removeEntries, unbindAddresses } from "./entry-steps.ts";
import { FlowSweeper } from "./flow-sweeper.ts";
import { ensureLink, writeRules } from "./foundation-steps.ts";
import { KnownState } from "./known-state.ts";
import { lostRules, lostSets } from "./lost-state.ts";
import { observe, observeRules } from "./observe.ts";
import { isContested, type OwnershipFacts, type OwnershipPolicy } from "./ownership.ts";
import { type ChangeKind, ReportBuilder, type SyncReport } from "./report.ts";
import { ServerMemory } from "./server-memory.ts";
import { applyServers, removeServers } from "./server-steps.ts";
import { ensureSets, removeTemporarySets } from "./set-steps.ts";
import type { SyncContext, SyncGoal, SyncTools } from "./sync-context.ts";
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
}

interface Step {
  /** For the report, when the step as a whole fails. */
  readonly kind: ChangeKind;
  readonly run: (context: SyncContext) => Promise<void>;
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
  #contested: ReadonlySet<string> = new Set();
  /** As planned for the sync before. */
  #rules: SyncGoal["rules"] = new Map();
  #known = new KnownState();
  #needsObservation = true;
  #isFirst = true;

  constructor(parts: ReconcilerParts, options: ReconcilerOptions) {
    const { kernel, clock, log, drainAges: ages = noDrainAges } = parts;
    this.#kernel = kernel;
    this.#clock = clock;
    this.#log = log;
    this.#options = options;
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

  /** One pass. An observation that fails ends it before the first write. */
  async sync(goal: SyncGoal): Promise<SyncReport> {
    const report = new ReportBuilder();
    const isFull = goal.dirty === "all" || this.#needsObservation;
    if (isFull && !(await this.#observe(goal, report))) return report.build();
    this.#rules = goal.rules;
    const facts = this.#ownershipFacts(goal);
    if (isFull) this.#contested = this.#findContested(goal, facts);
    const effective = this.#effective(goal, isFull);
    const work = planWork(effective, this.#known, { ...facts, contested: this.#contested });
    if (isFull) report.foreign(work.foreignServers, [...this.#contested]);
    const context = { ...this.#context(report), goal: effective, work, isFirst: this.#isFirst };
    for (const step of this.#steps) await runStep(step, context);
    if (isFull) this.#memory.noteAll(this.#known, work);
    else this.#memory.noteChanged(this.#known, work);
    for (const key of report.takenServers) this.#memory.noteTaken(key);
    this.#isFirst &&= report.hasFailures;
    this.#needsObservation = report.hasFailures;
    return report.build();
  }

  /**
   * Compares kube-ipvs0 with what is known of it. Our own writes tell the watcher too: only where
   * somebody else's did, the next sync looks at everything.
   */
  noteBound(bound: ReadonlySet<IpAddress> | undefined): void {
    const known = this.#known.addresses;
    const isSame =
      this.#known.hasLink === (bound !== undefined) && sameSet(known, bound ?? new Set());
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

  /** Reads our chains and jumps; gives those that differ. The next sync writes them again. */
  async checkRules(): Promise<readonly string[]> {
    if (this.#needsObservation) return [];
    const { iptables } = this.#kernel;
    const lost: string[] = [];
    for (const [family, planned] of this.#rules) {
      const observed = await observeRules(iptables, family, planned);
      const places = lostRules(planned, observed, (rule) => iptables.render(family, rule));
      if (places.length > 0) this.#known.rules.set(family, observed);
      lost.push(...places.map((place) => `${family} ${place}`));
    }
    // Who took rules away may have taken sets: rules cannot be written before those they name.
    if (lost.length > 0) lost.push(...(await this.checkSets()));
    return lost;
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

  /** The goal without what others have. */
  #effective(goal: SyncGoal, isFull: boolean): SyncGoal {
    const { desired, dirty } = goal;
    const isPartial = dirty !== "all" && !isFull;
    return {
      ...goal,
      dirty: isPartial ? withAddressesOf(dirty, desired, this.#contested) : "all",
      desired: withoutServers(desired, this.#contested),
    };
  }

  #ownershipFacts({ nodeAddresses }: SyncGoal): OwnershipFacts {
    const { ours, foreign } = this.#memory;
    return { policy: this.#options.ownership, nodeAddresses, ours, foreign };
  }

  /** Before the first write of a sync: our own entries would say that everything is ours. */
  #findContested({ desired }: SyncGoal, facts: OwnershipFacts): ReadonlySet<string> {
    const contested = new Set<string>();
    for (const key of desired.virtualServerKeys()) {
      if (isContested(key, this.#known, facts)) contested.add(key);
    }
    return contested;
  }

  #context(report: ReportBuilder): SyncTools {
    const [kernel, clock, log] = [this.#kernel, this.#clock, this.#log];
    return { kernel, clock, log, known: this.#known, report };
  }

  async #observe(goal: SyncGoal, report: ReportBuilder): Promise<boolean> {
    try {
      this.#known = await observe(this.#kernel, goal.rules);
      return true;
    } catch (error) {
      report.fail("observe", "kernel state", error);
      this.#needsObservation = true;
      return false;
    }
  }
}

/**
 * The order keeps packets right at every moment: what makes a virtual server work comes before it, its
 * address after it; removal runs the other way round. An address leaves before its entry in
 * KUBE-IPVS-IPS, or for a moment the node's own services would answer there.
 */
function stepsWith(drainer: Drainer, sweeper: FlowSweeper): readonly Step[] {
  return [
    { kind: "link-create", run: ensureLink },
    { kind: "set-create", run: ensureSets },
    { kind: "entry-add", run: addEntries },
    { kind: "rules-write", run: writeRules },
    { kind: "set-destroy", run: removeTemporarySets },
    { kind: "virtual-server-create", run: applyServers },
    { kind: "address-add", run: bindAddresses },
    { kind: "real-server-remove", run: (context) => drainer.release(context) },
    { kind: "virtual-server-remove", run: removeServers },
    { kind: "address-remove", run: unbindAddresses },
    { kind: "entry-remove", run: removeEntries },
    { kind: "flow-remove", run: (context) => sweeper.sweepAfterSync(context) },
  ];
}

/** A step throws when nothing is known about its request (ENOBUFS, time-out); the others still run. */
async function runStep(step: Step, context: SyncContext): Promise<void> {
  try {
    await step.run(context);
  } catch (error) {
    context.report.fail(step.kind, "request", error);
  }
}

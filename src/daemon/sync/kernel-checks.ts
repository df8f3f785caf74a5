import type { NextRun, Periodic, PeriodicTask } from "../../base/periodic.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { Reconciler } from "../../reconcile/reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { SyncGoal } from "../../reconcile/sync-goal.ts";
import type { SyncReporter } from "../report/sync-reporter.ts";
import { ChangeWatch } from "./change-watch.ts";
import { type CheckContext, Checks, checkShare, paceOf } from "./checks.ts";

export interface KernelCheckContext extends CheckContext {
  readonly kernel: Pick<Kernel, "link" | "watchTables">;
  readonly reporter: SyncReporter;
  readonly reconciler: Reconciler;
  /** The goal of the last sync. Undefined before the first one. */
  readonly lastGoal: () => SyncGoal | undefined;
}

/** Pause between two checks of our ipsets' headers. */
const setCheckMs = 5_000;
/**
 * Pause between two checks of draining real servers. Expensive checks have longer pauses. A drain may exceed its
 * deadline by one pause.
 */
const drainCheckMs = 1_000;
const longestDrainPauseMs = 10_000;
/** All kernel state is compared at least once within this time, unless the verification period is longer. */
const verificationRoundMs = 240_000;
/** Largest share of one CPU that the checks of ipsets and drains may use. */
const smallCheckShare = 0.05;

/**
 * The check after a change to our tables is briefly delayed, so that it sees all transactions of the program that made
 * the change. A program that changes our tables continuously causes at most four checks per second.
 */
const tablesPace = { gatherMs: 20, pauseMs: 250 } as const;

/** The checks between syncs in IPVS mode. */
export class KernelChecks extends Checks<KernelCheckContext> {
  readonly #drains: Periodic;
  #tablesWatch: ChangeWatch | undefined;
  /** The program that last changed our tables. Like the names of the changed sets, it is reset by each check. */
  #changedBy: string | undefined;
  #changedSets = new Set<string>();

  constructor(context: KernelCheckContext) {
    super(context);
    this.#drains = this.periodic({
      name: "check of draining real servers",
      intervalMs: drainCheckMs,
      maxShare: smallCheckShare,
      longestPauseMs: longestDrainPauseMs,
      run: () => this.#checkDrains(),
    });
  }

  override stop(): void {
    super.stop();
    this.#drains.stop();
    this.#tablesWatch?.stop();
  }

  /**
   * Call this when a sync has ended. Starts the drain checks if real servers are draining. The watch on our tables
   * starts after the first sync, because the kernel also reports each element that this process adds.
   */
  synced(): void {
    this.#tablesWatch ??= this.#watchTables();
    if (this.context.reconciler.needsDrainCheck) this.#drains.start();
  }

  protected override tasks(): readonly PeriodicTask[] {
    const { clock, live, reconciler } = this.context;
    return [
      {
        name: "check of sets",
        intervalMs: setCheckMs,
        maxShare: smallCheckShare,
        longestPauseMs: 3 * setCheckMs,
        run: () =>
          this.check("sets", async () => {
            if (reconciler.needsObservation) return false;
            return (await reconciler.verification.checkSets()).length > 0;
          }),
      },
      {
        // The pace depends on elapsed time, because most of the work is done by iptables programs, whose CPU time our
        // own does not include. If third-party rules change continuously, every check starts these programs.
        usedMs: () => clock.monotonicMs(),
        name: "check of rules",
        ...paceOf(live.current.ruleCheckPeriodMs),
        maxShare: checkShare,
        run: () => this.check("rules", () => this.#rulesDiffer()),
      },
      {
        name: "verification",
        ...paceOf(this.#verificationMs),
        maxShare: checkShare,
        run: () => this.#verify(),
      },
    ];
  }

  get #verificationMs(): number {
    const { syncPeriodMs, verificationPeriodMs } = this.context.live.current;
    return Math.min(syncPeriodMs, verificationPeriodMs);
  }

  protected override async checkAddresses(): Promise<void> {
    const { node, reconciler, requestSync } = this.context;
    const { network, isChanged } = await node.look();
    reconciler.noteBound(network.bound);
    if (isChanged || reconciler.needsSync) requestSync();
  }

  async #rulesDiffer(): Promise<boolean> {
    const { lastGoal, reconciler } = this.context;
    const goal = lastGoal();
    if (goal === undefined || reconciler.needsObservation) return false;
    return reconciler.verification.checkRules(goal.rules);
  }

  #watchTables(): ChangeWatch | undefined {
    const { kernel, log } = this.context;
    const { watchTables } = kernel;
    if (watchTables === undefined) return undefined;
    const name = "rules and sets";
    const watch = new ChangeWatch(
      {
        ...{ name, ...tablesPace },
        watch: (onChange, onError) =>
          watchTables({
            onChange: ({ by, setNames = [] }) => {
              this.#changedBy = by;
              for (const set of setNames) this.#changedSets.add(set);
              onChange();
            },
            onError,
          }),
        check: () => this.#checkTables(),
      },
      this.context,
    );
    try {
      watch.start();
    } catch (error) {
      // Without the watch, the periodic checks still find all changes, but later.
      log.warn(`Cannot watch ${name}`, { err: error });
    }
    return watch;
  }

  /** Unlike the periodic checks, waits for a running sync, because there is no second notification. */
  async #checkTables(): Promise<void> {
    const { exclusive, reconciler, reporter, requestSync } = this.context;
    await exclusive.run(async () => {
      const [by, sets] = [this.#changedBy, this.#changedSets];
      this.#changedSets = new Set();
      if (reconciler.needsObservation) return requestSync();
      try {
        const state = (await this.#rulesDiffer()) ? "rules" : "sets";
        await reconciler.verification.checkSets(sets);
        if (!reconciler.needsSync) return;
        reporter.driftDetected(state, by);
      } catch (error) {
        for (const name of sets) this.#changedSets.add(name);
        throw error;
      }
      requestSync();
    });
  }

  /**
   * Verifies part of the kernel state in steps, between which syncs can run. Then requests a sync, which repairs any
   * drift.
   */
  async #verify(): Promise<NextRun> {
    const periodsPerRound = Math.max(1, Math.floor(verificationRoundMs / this.#verificationMs));
    const { exclusive, reconciler, reporter, requestSync, lastGoal } = this.context;
    await exclusive.run(() => this.checkAddresses());
    const goal = lastGoal();
    if (goal !== undefined && !reconciler.needsObservation) {
      const steps = await exclusive.run(() =>
        reconciler.verification.beginPeriod(goal.sysctls, periodsPerRound),
      );
      for (const step of steps) await exclusive.run(step);
      if (!reconciler.needsSync) reporter.verifiedClean();
    }
    requestSync();
    return "paced";
  }

  async #checkDrains(): Promise<NextRun> {
    const { exclusive, reconciler, reporter, lastGoal } = this.context;
    const goal = lastGoal();
    if (goal === undefined) return "stop";
    const report = await exclusive.run(() => reconciler.checkDrains(goal.desired, goal.drain));
    reporter.drained(report, reconciler.drainer);
    if (reconciler.needsObservation) this.context.requestSync();
    if (!reconciler.needsDrainCheck) return "stop";
    // After a change, further changes are likely soon.
    return changeCount(report) > 0 ? "soon" : "paced";
  }
}

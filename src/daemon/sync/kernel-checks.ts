import type { NextRun, Periodic, PeriodicTask } from "../../base/periodic.ts";
import type { Reconciler } from "../../reconcile/reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { SyncGoal } from "../../reconcile/sync-goal.ts";
import type { SyncReporter } from "../report/sync-reporter.ts";
import { type CheckContext, Checks, checkShare, paceOf } from "./checks.ts";

export interface KernelCheckContext extends CheckContext {
  readonly reporter: SyncReporter;
  readonly reconciler: Reconciler;
  /** What the last sync was to reach; undefined: there was none yet. */
  readonly lastGoal: () => SyncGoal | undefined;
}

/** Between two checks of the headers of our sets. */
const setCheckMs = 5_000;
/** Between two checks of what drains, while they cost little; deadlines are kept to within the longest pause. */
const drainCheckMs = 1_000;
const longestDrainPauseMs = 10_000;
/** Everything is compared once in this time, however long a period is. */
const verificationRoundMs = 240_000;
/** Most of a processor that checks of sets and drains may take. */
const smallCheckShare = 0.05;

/** What is checked between syncs in IPVS mode. */
export class KernelChecks extends Checks<KernelCheckContext> {
  readonly #drains: Periodic;

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
  }

  /** A sync is over: where something drains, it is checked from now on. */
  synced(): void {
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
        // What it costs are mostly programs, which our own processor time does not show: beside many rules of others
        // and someone who writes one each second, each check starts them.
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

  /** A share of everything, in steps between which changes have their turn; then a sync, which repairs what differs. */
  async #verify(): Promise<NextRun> {
    const periodsPerRound = Math.max(1, Math.floor(verificationRoundMs / this.#verificationMs));
    const { exclusive, reconciler, requestSync, lastGoal } = this.context;
    await exclusive.run(() => this.checkAddresses());
    const goal = lastGoal();
    if (goal !== undefined && !reconciler.needsObservation) {
      const steps = await exclusive.run(() =>
        reconciler.verification.beginPeriod(goal.sysctls, periodsPerRound),
      );
      for (const step of steps) await exclusive.run(step);
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
    // What has just changed may change further soon.
    return changeCount(report) > 0 ? "soon" : "paced";
  }
}

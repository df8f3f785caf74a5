import type { Clock } from "../../base/clock.ts";
import type { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, type Pace, Periodic, type PeriodicTask } from "../../base/periodic.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { Reconciler } from "../../reconcile/reconciler.ts";
import { changeCount } from "../../reconcile/report.ts";
import type { SyncGoal } from "../../reconcile/sync-goal.ts";
import type { KnownNode } from "../node/known-node.ts";
import type { SyncReporter } from "../report/sync-reporter.ts";
import { AddressWatch } from "./address-watch.ts";

export interface KernelCheckContext {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly reporter: SyncReporter;
  readonly reconciler: Reconciler;
  readonly node: KnownNode;
  /** A sync and a check never overlap: both change the cached kernel state. */
  readonly exclusive: Exclusive;
  /** What the last sync was to reach; undefined: there was none yet. */
  readonly lastGoal: () => SyncGoal | undefined;
  /** Milliseconds of processor time that the process has used; absent, and for rules: time that passes counts. */
  readonly processorMs?: () => number;
  /** Asks for a sync: a check found something, or a period is over. */
  readonly requestSync: () => void;
}

export interface KernelCheckPeriods {
  /** 0: rules are not checked between syncs. */
  readonly ruleCheckMs: number;
  /** Between two periods of the verification. */
  readonly verificationMs: number;
}

/** Between two checks of the headers of our sets. */
const setCheckMs = 5_000;
/** Between two checks of what drains, while they cost little; deadlines are kept to within the longest pause. */
const drainCheckMs = 1_000;
const longestDrainPauseMs = 10_000;
/** Everything is compared once in this time, however long a period is. */
const verificationRoundMs = 240_000;
/** However expensive rules and verification are: they are put off for no longer. */
const mostIntervals = 8;
/** Most of a processor that verification may take, and that the other checks may take. */
const verificationShare = 0.02;
const checkShare = 0.05;

/** What is checked between syncs, each on a timer of its own that no change puts off. */
export class KernelChecks {
  readonly #parts: KernelCheckContext;
  readonly #addressWatch: AddressWatch;
  readonly #drains: Periodic;
  readonly #verifications: Periodic;
  #verificationMs: number;
  readonly #periodic: readonly Periodic[];

  constructor(parts: KernelCheckContext, { ruleCheckMs, verificationMs }: KernelCheckPeriods) {
    this.#parts = parts;
    this.#verificationMs = verificationMs;
    const { exclusive } = parts;
    this.#addressWatch = new AddressWatch(() => exclusive.run(() => this.#checkAddresses()), parts);
    const used = parts.processorMs === undefined ? {} : { usedMs: parts.processorMs };
    const passing = { usedMs: (): number => parts.clock.monotonicMs() };
    const periodic = (task: PeriodicTask): Periodic => new Periodic({ ...used, ...task }, parts);
    this.#drains = periodic({
      name: "check of draining real servers",
      intervalMs: drainCheckMs,
      maxShare: checkShare,
      longestPauseMs: longestDrainPauseMs,
      run: () => this.#checkDrains(),
    });
    this.#verifications = periodic({
      name: "verification",
      ...verificationPace(verificationMs),
      maxShare: verificationShare,
      run: () => this.#verify(),
    });
    this.#periodic = [
      periodic({
        name: "check of sets",
        intervalMs: setCheckMs,
        maxShare: checkShare,
        longestPauseMs: 3 * setCheckMs,
        run: () =>
          this.#check("sets", async () => (await this.#verification.checkSets()).length > 0),
      }),
      periodic({
        // What it costs are mostly programs, which our own processor time does not show: beside many rules of others
        // and someone who writes one each second, each check starts them.
        ...passing,
        name: "check of rules",
        intervalMs: ruleCheckMs,
        maxShare: verificationShare,
        longestPauseMs: mostIntervals * ruleCheckMs,
        run: () => this.#check("rules", async () => this.#checkRules()),
      }),
      this.#verifications,
    ];
  }

  start(): void {
    this.#addressWatch.start();
    for (const task of this.#periodic) task.start();
  }

  /** From now on verifications come in this period. */
  configure({ verificationMs }: Pick<KernelCheckPeriods, "verificationMs">): void {
    this.#verificationMs = verificationMs;
    this.#verifications.configure(verificationPace(verificationMs));
  }

  /** No check begins any more; one may still run. */
  stop(): void {
    this.#addressWatch.stop();
    this.#drains.stop();
    for (const task of this.#periodic) task.stop();
  }

  /** A sync is over: where something drains, it is checked from now on. */
  synced(): void {
    if (this.#parts.reconciler.needsDrainCheck) this.#drains.start();
  }

  get #verification(): Reconciler["verification"] {
    return this.#parts.reconciler.verification;
  }

  async #checkAddresses(): Promise<void> {
    const { node, reconciler, requestSync } = this.#parts;
    const { network, isChanged } = await node.look();
    reconciler.noteBound(network.bound);
    if (isChanged || reconciler.needsSync) requestSync();
  }

  /** It waits for nothing and holds up nothing: while a sync runs, there is no check. */
  async #check(state: "sets" | "rules", differs: () => Promise<boolean>): Promise<NextRun> {
    const { exclusive, reconciler, reporter, requestSync } = this.#parts;
    await exclusive.runIfIdle(async () => {
      if (reconciler.needsObservation || !(await differs())) return;
      reporter.driftDetected(state);
      requestSync();
    }, undefined);
    return "paced";
  }

  async #checkRules(): Promise<boolean> {
    const goal = this.#parts.lastGoal();
    return goal !== undefined && this.#verification.checkRules(goal.rules);
  }

  /** A share of everything, in steps between which changes have their turn; then a sync, which repairs what differs. */
  async #verify(): Promise<NextRun> {
    const periodsPerRound = Math.max(1, Math.floor(verificationRoundMs / this.#verificationMs));
    const { exclusive, reconciler, requestSync, lastGoal } = this.#parts;
    await exclusive.run(() => this.#checkAddresses());
    const goal = lastGoal();
    if (goal !== undefined && !reconciler.needsObservation) {
      const steps = await exclusive.run(() =>
        this.#verification.beginPeriod(goal.sysctls, periodsPerRound),
      );
      for (const step of steps) await exclusive.run(step);
    }
    requestSync();
    return "paced";
  }

  async #checkDrains(): Promise<NextRun> {
    const { exclusive, reconciler, reporter, lastGoal } = this.#parts;
    const goal = lastGoal();
    if (goal === undefined) return "stop";
    const report = await exclusive.run(() => reconciler.checkDrains(goal.desired, goal.drain));
    reporter.drained(report, reconciler.drainer);
    if (reconciler.needsObservation) this.#parts.requestSync();
    if (!reconciler.needsDrainCheck) return "stop";
    // What has just changed may change further soon.
    return changeCount(report) > 0 ? "soon" : "paced";
  }
}

function verificationPace(intervalMs: number): Pace {
  return { intervalMs, longestPauseMs: mostIntervals * intervalMs };
}

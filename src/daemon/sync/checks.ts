import type { Clock } from "../../base/clock.ts";
import type { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, type Pace, Periodic, type PeriodicTask } from "../../base/periodic.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { KnownNode } from "../node/known-node.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { LoopReporter } from "../report/loop-reporter.ts";
import { AddressWatch } from "./address-watch.ts";

export interface CheckContext {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly live: LiveConfig;
  readonly reporter: Pick<LoopReporter<never>, "driftDetected">;
  readonly node: KnownNode;
  /** A sync and a check never overlap: both change the cached kernel state. */
  readonly exclusive: Exclusive;
  /** Milliseconds of processor time that the process has used. If undefined, time that passes is used. */
  readonly processorMs?: () => number;
  /** Asks for a sync: a check found something, or a period is over. */
  readonly requestSync: () => void;
}

/** No check is postponed for more intervals than this, however expensive it is. */
const mostIntervals = 8;
/** Most of a processor that one check may use. */
export const checkShare = 0.02;

/** What is checked between syncs, each on a timer of its own that no change puts off: addresses, and more in each mode. */
export abstract class Checks<Context extends CheckContext = CheckContext> {
  protected readonly context: Context;
  readonly #addressWatch: AddressWatch;
  #periodic: readonly Periodic[] = [];

  constructor(context: Context) {
    const look = (): Promise<void> => context.exclusive.run(() => this.checkAddresses());
    this.context = context;
    this.#addressWatch = new AddressWatch(look, context);
  }

  start(): void {
    this.#addressWatch.start();
    this.#periodic = this.tasks().map((task) => this.periodic(task));
    for (const task of this.#periodic) task.start();
  }

  /** The configuration has changed. */
  configure(): void {
    for (const [index, task] of this.tasks().entries()) this.#periodic[index]?.configure(task);
  }

  /** No check begins any more; one may still run. */
  stop(): void {
    this.#addressWatch.stop();
    for (const task of this.#periodic) task.stop();
  }

  /** With the paces of the current configuration. */
  protected abstract tasks(): readonly PeriodicTask[];

  protected async checkAddresses(): Promise<void> {
    const { node, requestSync } = this.context;
    if ((await node.look()).isChanged) requestSync();
  }

  protected periodic(task: PeriodicTask): Periodic {
    const { processorMs } = this.context;
    return new Periodic({ ...(processorMs && { usedMs: processorMs }), ...task }, this.context);
  }

  /** Requests a sync if something differs. While a sync runs, there is no check. */
  protected async check(
    state: "sets" | "rules",
    differs: () => Promise<boolean>,
  ): Promise<NextRun> {
    const { exclusive, reporter, requestSync } = this.context;
    await exclusive.runIfIdle(async () => {
      if (!(await differs())) return;
      reporter.driftDetected(state);
      requestSync();
    }, undefined);
    return "paced";
  }
}

export function paceOf(intervalMs: number): Pace {
  return { intervalMs, longestPauseMs: mostIntervals * intervalMs };
}

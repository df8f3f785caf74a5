import type { Clock } from "../../base/clock.ts";
import type { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, type Pace, Periodic, type PeriodicTask } from "../../base/periodic.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { KnownNode } from "../node/known-node.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { LoopReporter } from "../report/loop-reporter.ts";
import { ChangeWatch } from "./change-watch.ts";

export interface CheckContext {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly live: LiveConfig;
  readonly reporter: Pick<LoopReporter, "driftDetected">;
  readonly node: KnownNode;
  /** Prevents a sync and a check from overlapping, because both change the cached kernel state. */
  readonly exclusive: Exclusive;
  /** CPU time used by the process, in milliseconds. If undefined, elapsed time is used. */
  readonly processorMs?: () => number;
  /** Requests a sync because a check found a difference or a period has ended. */
  readonly requestSync: () => void;
}

/**
 * The check after an address change is briefly delayed, so that several changes cause a single check. A routing daemon
 * that changes routes continuously causes at most one check per second.
 */
const addressPace = { gatherMs: 100, pauseMs: 1_000 } as const;
/** Longest pause between two checks as a multiple of their interval. It applies even to expensive checks. */
const mostIntervals = 8;
/** Largest share of one CPU that a check may use. */
export const checkShare = 0.02;

/**
 * Checks that run between syncs. Each check has its own timer. Changes in the cluster do not postpone a check.
 * Addresses are checked in all modes; each mode adds further checks.
 */
export abstract class Checks<Context extends CheckContext = CheckContext> {
  protected readonly context: Context;
  readonly #addressWatch: ChangeWatch;
  #periodic: readonly Periodic[] = [];

  constructor(context: Context) {
    const { kernel, exclusive } = context;
    this.context = context;
    this.#addressWatch = new ChangeWatch(
      {
        name: "links and addresses",
        watch: (onChange, onError) => kernel.link.watch(onChange, onError),
        check: () => exclusive.run(() => this.checkAddresses()),
        ...addressPace,
      },
      context,
    );
  }

  start(): void {
    this.#addressWatch.start();
    this.#periodic = this.tasks().map((task) => this.periodic(task));
    for (const task of this.#periodic) task.start();
  }

  /** Call this when the configuration has changed. */
  configure(): void {
    for (const [index, task] of this.tasks().entries()) this.#periodic[index]?.configure(task);
  }

  /** Starts no further check. A running check may continue. */
  stop(): void {
    this.#addressWatch.stop();
    for (const task of this.#periodic) task.stop();
  }

  /** The periodic checks, with the currently configured intervals. */
  protected abstract tasks(): readonly PeriodicTask[];

  protected async checkAddresses(): Promise<void> {
    const { node, requestSync } = this.context;
    if ((await node.look()).isChanged) requestSync();
  }

  protected periodic(task: PeriodicTask): Periodic {
    const { processorMs } = this.context;
    return new Periodic({ ...(processorMs && { usedMs: processorMs }), ...task }, this.context);
  }

  /** Requests a sync if `differs` resolves with true. Skips the check while a sync is running. */
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

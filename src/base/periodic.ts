import { background } from "./background.ts";
import type { Clock } from "./clock.ts";
import { errorText } from "./error-text.ts";
import type { Logger } from "./log.ts";

/**
 * When the task runs again. `stop`: not until it is started again. `soon`: after the interval, regardless of the cost
 * of this run. `paced`: after the interval, or after a longer pause that keeps the task within its `maxShare`.
 */
export type NextRun = "stop" | "soon" | "paced";

/** How often a task runs. */
export interface Pace {
  /** Pause between two runs; if 0, the task never runs. */
  readonly intervalMs: number;
  /** Maximum pause, regardless of the cost of a run. Undefined means no limit. */
  readonly longestPauseMs?: number;
}

export interface PeriodicTask extends Pace {
  /** Name for the log: `check of sets`. */
  readonly name: string;
  /** Maximum share of time that runs may use: an expensive run is followed by a longer pause. */
  readonly maxShare: number;
  /** Total milliseconds of a resource used so far, such as CPU time; by default, elapsed time. */
  readonly usedMs?: () => number;
  readonly run: () => Promise<NextRun>;
}

/** Runs a task periodically, one run at a time, with pauses that limit its cost. Logs a failed run and tries again. */
export class Periodic {
  readonly #task: PeriodicTask;
  readonly #clock: Clock;
  readonly #log: Logger;
  #pace: Pace;
  #cancel: (() => void) | undefined;
  #isRunning = false;
  #isStopped = false;
  #pauseMs: number;

  constructor(task: PeriodicTask, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#task = task;
    this.#clock = clock;
    this.#log = log;
    this.#pace = task;
    this.#pauseMs = task.intervalMs;
  }

  /** Schedules the first run after the interval. Does nothing if the task is running or scheduled. */
  start(): void {
    if (this.#isStopped || this.#isRunning || this.#cancel !== undefined) return;
    if (this.#pace.intervalMs <= 0) return;
    this.#cancel = this.#clock.after(this.#pauseMs, () => {
      this.#cancel = undefined;
      background(this.#runOnce(), this.#log, this.#task.name);
    });
  }

  /** Changes the pace. If it differs, a scheduled run starts after the new interval instead. */
  configure(pace: Pace): void {
    const { intervalMs, longestPauseMs } = this.#pace;
    if (pace.intervalMs === intervalMs && pace.longestPauseMs === longestPauseMs) return;
    this.#pace = pace;
    this.#pauseMs = pace.intervalMs;
    if (this.#cancel === undefined) return;
    this.#cancel();
    this.#cancel = undefined;
    this.start();
  }

  /** Prevents all further runs. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  async #runOnce(): Promise<void> {
    const usedMs = this.#task.usedMs ?? ((): number => this.#clock.monotonicMs());
    const beganMs = usedMs();
    this.#isRunning = true;
    const next = await this.#attempt();
    this.#isRunning = false;
    const costMs = usedMs() - beganMs;
    this.#pauseMs = next === "paced" ? this.#pacedMs(costMs) : this.#pace.intervalMs;
    if (next !== "stop") this.start();
  }

  async #attempt(): Promise<NextRun> {
    try {
      return await this.#task.run();
    } catch (error) {
      const { name: task } = this.#task;
      if (!this.#isStopped) this.#log.warn("Periodic task failed", { task, err: errorText(error) });
      return "paced";
    }
  }

  #pacedMs(costMs: number): number {
    const { intervalMs, longestPauseMs = Number.POSITIVE_INFINITY } = this.#pace;
    const { maxShare } = this.#task;
    return Math.max(intervalMs, Math.min(costMs * (1 / maxShare - 1), longestPauseMs));
  }
}

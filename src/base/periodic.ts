import { background } from "./background.ts";
import type { Clock } from "./clock.ts";
import { errorText } from "./error-text.ts";
import type { Logger } from "./log.ts";

/** `stop`: no further run until it is started again. `soon`: the next one comes after the interval, whatever this one cost. */
export type NextRun = "stop" | "soon" | "paced";

/** How often a task runs. */
export interface Pace {
  /** Pause between two runs; 0: it never runs. */
  readonly intervalMs: number;
  /** No pause is longer than this, whatever a run costs. Undefined without a limit. */
  readonly longestPauseMs?: number;
}

export interface PeriodicTask extends Pace {
  /** For the log: `check of sets`. */
  readonly name: string;
  /** Most of the time that runs may use, as a share: after an expensive run the pause is longer. */
  readonly maxShare: number;
  /** Milliseconds of a resource that runs use, counted up; default: time that passes. */
  readonly usedMs?: () => number;
  readonly run: () => Promise<NextRun>;
}

/** Runs a task again and again, never twice at once, at a pace that stays cheap. A run that fails is logged, and comes again. */
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

  /** The first run comes after the interval. A task that is under way or waits goes on as it is. */
  start(): void {
    if (this.#isStopped || this.#isRunning || this.#cancel !== undefined) return;
    if (this.#pace.intervalMs <= 0) return;
    this.#cancel = this.#clock.after(this.#pauseMs, () => {
      this.#cancel = undefined;
      background(this.#runOnce(), this.#log, this.#task.name);
    });
  }

  /** From now on this pace counts; where it is another one, a run that is waited for comes after the new interval. */
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

  /** No run begins any more. */
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

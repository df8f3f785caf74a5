import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";

export interface RunnerOptions {
  /** Shortest delay between a request and the run that it causes, so that several requests cause a single run. */
  readonly gatherMs: number;
  /**
   * Shortest pause between the end of one run and the start of the next. After a failure, `longestRetryMs` applies if
   * it is shorter.
   */
  readonly minIntervalMs: number;
  /** Pause before the first retry. It doubles with each consecutive failure, up to `longestRetryMs`. */
  readonly firstRetryMs: number;
  readonly longestRetryMs: number;
}

/** Pause before the first retry of a failed sync. */
const firstRetryMs = 1_000;
/** Upper limit of the pause between retries, whatever the sync and verification periods are. */
const mostRetryMs = 60_000;

type Periods = Pick<Config, "minSyncPeriodMs" | "syncPeriodMs" | "verificationPeriodMs">;

export function runnerOptions({ current }: { readonly current: Periods }): RunnerOptions {
  const { minSyncPeriodMs: minIntervalMs, syncPeriodMs, verificationPeriodMs } = current;
  const periodMs = Math.max(minIntervalMs, Math.min(syncPeriodMs, verificationPeriodMs));
  return {
    gatherMs: 0,
    minIntervalMs,
    firstRetryMs,
    longestRetryMs: Math.min(periodMs, mostRetryMs),
  };
}

/**
 * Runs a function on request, never concurrently and at most once every `minIntervalMs`, and retries it after a
 * failure. Requests before a run starts are combined into one. A request during a run causes another run.
 */
export class Runner {
  readonly #name: string;
  readonly #run: () => Promise<boolean>;
  readonly #clock: Clock;
  readonly #log: Logger;
  #options: RunnerOptions;
  #isStarted = false;
  #isStopped = false;
  #isRequested = false;
  #running: Promise<void> | undefined;
  #failuresInARow = 0;
  #pauseEndsAtMs = 0;
  #cancelTimer: () => void = () => {};
  #cancelRequest: () => void = () => {};
  readonly #waiters = new Set<() => void>();

  /**
   * `name` is used in log messages, such as `Sync failed`. `run` resolves with whether it succeeded. If it rejects, the
   * error is logged and the run has failed.
   */
  constructor(
    name: string,
    run: () => Promise<boolean>,
    collaborators: { readonly clock: Clock; readonly log: Logger },
    options: RunnerOptions,
  ) {
    this.#name = name;
    this.#run = run;
    this.#clock = collaborators.clock;
    this.#log = collaborators.log;
    this.#options = options;
  }

  /** Starts serving requests, including one that was made before the start. */
  start(): void {
    this.#isStarted = true;
    if (this.#isRequested) this.#schedule(0);
  }

  configure(options: RunnerOptions): void {
    this.#options = options;
  }

  /** Requests a run. This is cheap enough to call for each event. */
  request(): void {
    if (this.#isRequested || this.#isStopped) return;
    this.#isRequested = true;
    if (this.#isStarted && this.#running === undefined) {
      this.#schedule(this.#pauseEndsAtMs - this.#clock.monotonicMs());
    }
  }

  /**
   * Requests a run at this monotonic time, which replaces the time of the previous call. Undefined if no run is needed.
   * If the time has already come, requests the run immediately, so that the runner is not considered settled before
   * that run.
   */
  requestAt(dueMs: number | undefined): void {
    this.#cancelRequest();
    if (dueMs === undefined || this.#isStopped) return;
    const delayMs = dueMs - this.#clock.monotonicMs();
    if (delayMs <= 0) this.request();
    else this.#cancelRequest = this.#clock.after(delayMs, () => this.request());
  }

  /** Resolves when no run is requested or running and the last run succeeded. */
  settled(): Promise<void> {
    if (this.#isSettled()) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.add(resolve));
  }

  /** Starts no further run. Resolves when the current run has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelTimer();
    this.#cancelRequest();
    await this.#running;
  }

  #isSettled(): boolean {
    return !this.#isRequested && this.#running === undefined && this.#failuresInARow === 0;
  }

  #schedule(delayMs: number): void {
    this.#cancelTimer();
    if (this.#isStopped) return;
    const { gatherMs } = this.#options;
    this.#cancelTimer = this.#clock.after(Math.max(gatherMs, delayMs), () => this.#begin());
  }

  #begin(): void {
    this.#isRequested = false;
    this.#running = this.#runOnce();
    background(this.#running, this.#log, this.#name);
  }

  async #runOnce(): Promise<void> {
    const hasWorked = await this.#attempt();
    this.#failuresInARow = hasWorked ? 0 : this.#failuresInARow + 1;
    this.#running = undefined;
    const pauseMs = this.#shortestPauseMs();
    this.#pauseEndsAtMs = this.#clock.monotonicMs() + pauseMs;
    if (this.#isRequested) this.#schedule(pauseMs);
    else if (!hasWorked) this.#schedule(this.#retryDelayMs());
    if (!this.#isSettled()) return;
    for (const resolve of this.#waiters) resolve();
    this.#waiters.clear();
  }

  async #attempt(): Promise<boolean> {
    try {
      return await this.#run();
    } catch (error) {
      this.#log.error(`${this.#name} failed`, { err: error });
      return false;
    }
  }

  #shortestPauseMs(): number {
    const { minIntervalMs, longestRetryMs } = this.#options;
    return this.#failuresInARow === 0 ? minIntervalMs : Math.min(minIntervalMs, longestRetryMs);
  }

  #retryDelayMs(): number {
    const { firstRetryMs, longestRetryMs } = this.#options;
    const delayMs = firstRetryMs * 2 ** Math.min(this.#failuresInARow - 1, 16);
    return Math.max(this.#shortestPauseMs(), Math.min(delayMs, longestRetryMs));
  }
}

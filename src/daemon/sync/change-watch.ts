import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

/**
 * Pause before the first retry of a failed check. It doubles with each consecutive failure, up to {@link
 * longestRetryMs}.
 */
const firstRetryMs = 1_000;
const longestRetryMs = 30_000;

/** Kernel state that reports changes. */
export interface WatchedState {
  /** Name for the log: `links and addresses`. */
  readonly name: string;
  /** Returns a function that ends the watch. */
  watch(onChange: () => void, onError: (error: Error) => void): () => void;
  check(): Promise<void>;
  /** Pause between a notification and the check, so that several changes cause a single check. */
  readonly gatherMs: number;
  /** Minimum pause between two checks. */
  readonly pauseMs: number;
}

/**
 * Runs a check when kube-ipvs or a third party changes kernel state. Combines many notifications into one check, and
 * retries it until it succeeds.
 */
export class ChangeWatch {
  readonly #state: WatchedState;
  readonly #clock: Clock;
  readonly #log: Logger;
  #cancelCheck: () => void = () => {};
  /** When the scheduled check starts. Undefined if none is scheduled. */
  #dueMs: number | undefined;
  #stopWatching: () => void = () => {};
  /** Whether a check is running or waiting for a sync to end. */
  #isChecking = false;
  #mustCheckAgain = false;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #failuresInARow = 0;
  #isStopped = false;

  constructor(
    state: WatchedState,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#state = state;
    this.#clock = clock;
    this.#log = log;
  }

  /** Throws if the watch cannot be started. */
  start(): void {
    this.#stopWatching = this.#state.watch(
      () => this.#notice(),
      (error) => this.#log.warn(`Cannot watch ${this.#state.name}`, { err: error }),
    );
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopWatching();
    this.#cancelCheck();
  }

  #notice(): void {
    if (this.#isChecking) {
      this.#mustCheckAgain = true;
      return;
    }
    const { gatherMs, pauseMs } = this.#state;
    const pausedMs = this.#checkedAtMs + pauseMs - this.#clock.monotonicMs();
    this.#schedule(Math.max(gatherMs, pausedMs));
  }

  /** If a check is already due earlier, keeps it, so that continuous changes do not postpone it. */
  #schedule(delayMs: number): void {
    const dueMs = this.#clock.monotonicMs() + delayMs;
    if (this.#isStopped || (this.#dueMs !== undefined && this.#dueMs <= dueMs)) return;
    this.#cancelCheck();
    this.#dueMs = dueMs;
    this.#cancelCheck = this.#clock.after(delayMs, () => {
      this.#dueMs = undefined;
      background(this.#checkOnce(), this.#log, `check of ${this.#state.name}`);
    });
  }

  /**
   * Runs one check for all pending notifications. A check may wait for a long sync whose own writes cause many
   * notifications.
   */
  async #checkOnce(): Promise<void> {
    this.#isChecking = true;
    this.#mustCheckAgain = false;
    try {
      await this.#state.check();
      this.#failuresInARow = 0;
    } catch (error) {
      // There will be no second notification for the same change.
      this.#schedule(Math.min(firstRetryMs * 2 ** this.#failuresInARow, longestRetryMs));
      this.#failuresInARow += 1;
      throw error;
    } finally {
      this.#isChecking = false;
      this.#checkedAtMs = this.#clock.monotonicMs();
      if (this.#mustCheckAgain) this.#notice();
    }
  }
}

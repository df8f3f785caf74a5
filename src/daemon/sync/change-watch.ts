import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { Runner } from "./runner.ts";

/** Delays before a failed check is retried. */
const retries = { firstRetryMs: 1_000, longestRetryMs: 30_000 } as const;

/** Kernel state that reports changes. */
export interface WatchedState {
  /** Name for log messages, such as `links and addresses`. */
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
 * retries a failed check until it succeeds, because the kernel does not repeat a notification.
 */
export class ChangeWatch {
  readonly #state: WatchedState;
  readonly #log: Logger;
  readonly #runner: Runner;
  #stopWatching: () => void = () => {};

  constructor(state: WatchedState, parts: { readonly clock: Clock; readonly log: Logger }) {
    this.#state = state;
    this.#log = parts.log;
    const check = async (): Promise<boolean> => {
      await state.check();
      return true;
    };
    const { name, gatherMs, pauseMs: minIntervalMs } = state;
    const options = { ...retries, gatherMs, minIntervalMs };
    this.#runner = new Runner(`Check of ${name}`, check, parts, options);
  }

  /** Throws if the watch cannot be started. */
  start(): void {
    this.#stopWatching = this.#state.watch(
      () => this.#runner.request(),
      (error) => this.#log.warn(`Cannot watch ${this.#state.name}`, { err: error }),
    );
    this.#runner.start();
  }

  /** Starts no further check. A running check may continue. */
  stop(): void {
    this.#stopWatching();
    void this.#runner.stop();
  }
}

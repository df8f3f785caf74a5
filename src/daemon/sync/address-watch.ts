import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/** Pause between a notification and the check, so that several changes cause one check. */
const quietMs = 50;
/**
 * Pause before the first retry of a failed check. It doubles with each consecutive failure, up to {@link
 * longestRetryMs}.
 */
const firstRetryMs = 1_000;
const longestRetryMs = 30_000;

interface AddressWatchParts {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Runs a check when kube-ipvs or a third party changes links or addresses. Combines many notifications into one
 * check, and retries it until it succeeds.
 */
export class AddressWatch {
  readonly #look: () => Promise<void>;
  readonly #parts: AddressWatchParts;
  #cancelLook: () => void = () => {};
  #stopWatching: () => void = () => {};
  /** A check is running or waiting for a sync to end. */
  #isLooking = false;
  #mustLookAgain = false;
  #failuresInARow = 0;
  #isStopped = false;

  constructor(look: () => Promise<void>, parts: AddressWatchParts) {
    this.#look = look;
    this.#parts = parts;
  }

  start(): void {
    const { kernel, log } = this.#parts;
    this.#stopWatching = kernel.link.watch(
      () => this.#schedule(),
      (error) => log.warn("Cannot watch links and addresses", { err: error }),
    );
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopWatching();
    this.#cancelLook();
  }

  #schedule(delayMs = quietMs): void {
    if (this.#isStopped) return;
    this.#cancelLook();
    const { clock, log } = this.#parts;
    this.#cancelLook = clock.after(delayMs, () => {
      if (this.#isLooking) this.#mustLookAgain = true;
      else background(this.#lookOnce(), log, "address check");
    });
  }

  /**
   * Runs one check for all pending notifications. A check may wait for a long sync, whose own writes cause many
   * notifications.
   */
  async #lookOnce(): Promise<void> {
    this.#isLooking = true;
    this.#mustLookAgain = false;
    try {
      await this.#look();
      this.#failuresInARow = 0;
    } catch (error) {
      // There will be no second notification for the same change.
      this.#schedule(Math.min(firstRetryMs * 2 ** this.#failuresInARow, longestRetryMs));
      this.#failuresInARow += 1;
      throw error;
    } finally {
      this.#isLooking = false;
      if (this.#mustLookAgain) this.#schedule();
    }
  }
}

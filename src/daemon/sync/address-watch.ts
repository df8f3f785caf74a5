import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Kernel } from "../../kernel/kernel.ts";

/** Pause after a change of links or addresses before they are read. */
const quietMs = 50;
/** Pause before a check that failed is repeated; doubles with each failure in a row. */
const firstRetryMs = 1_000;
const longestRetryMs = 30_000;

interface AddressWatchParts {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Looks when links or addresses change, by us or by third parties; many messages are one check, repeated until it works. */
export class AddressWatch {
  readonly #look: () => Promise<void>;
  readonly #parts: AddressWatchParts;
  #cancelLook: () => void = () => {};
  #stopWatching: () => void = () => {};
  /** A check runs, or waits for a sync to end. */
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

  /** A check may wait for a long sync, whose own writes notify of changes all the time: one check is for all of them. */
  async #lookOnce(): Promise<void> {
    this.#isLooking = true;
    this.#mustLookAgain = false;
    try {
      await this.#look();
      this.#failuresInARow = 0;
    } catch (error) {
      // Nobody notifies of the same change again.
      this.#schedule(Math.min(firstRetryMs * 2 ** this.#failuresInARow, longestRetryMs));
      this.#failuresInARow += 1;
      throw error;
    } finally {
      this.#isLooking = false;
      if (this.#mustLookAgain) this.#schedule();
    }
  }
}

import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { Logger } from "../base/log.ts";

/** One look at a part of the kernel's state. */
export interface QuickCheck {
  /** For the log: `sets`, `rules`. */
  readonly name: string;
  /** Pause between two looks; 0 turns them off. */
  readonly intervalMs: number;
  /** Gives the names of what is not as we left it. */
  readonly look: () => Promise<readonly string[]>;
}

/** A pause is this many times as long as the look before it: at most a twentieth of the time is spent … */
const pauseFactor = 20;
/** … but no look is put off for longer than this many intervals. */
const mostIntervals = 3;

/**
 * Looks from time to time whether somebody took away what we wrote, so that it is repaired before the next
 * periodic sync. A look that fails is told and tried again at its time.
 */
export class QuickChecks {
  readonly #checks: readonly QuickCheck[];
  readonly #onLost: (name: string, lost: readonly string[]) => void;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #cancels = new Map<QuickCheck, () => void>();
  #isStopped = false;

  constructor(
    checks: readonly QuickCheck[],
    onLost: (name: string, lost: readonly string[]) => void,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#checks = checks.filter(({ intervalMs }) => intervalMs > 0);
    this.#onLost = onLost;
    this.#clock = clock;
    this.#log = log;
  }

  start(): void {
    for (const check of this.#checks) this.#schedule(check, check.intervalMs);
  }

  /** No look begins any more; one that runs may still tell. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#cancels.values()) cancel();
  }

  #schedule(check: QuickCheck, delayMs: number): void {
    if (this.#isStopped) return;
    const cancel = this.#clock.after(delayMs, () => {
      background(this.#run(check), this.#log, `check of ${check.name}`);
    });
    this.#cancels.set(check, cancel);
  }

  async #run(check: QuickCheck): Promise<void> {
    const beganMs = this.#clock.monotonicMs();
    try {
      const lost = await check.look();
      if (lost.length > 0 && !this.#isStopped) this.#onLost(check.name, lost);
    } catch (error) {
      this.#log.warn("Cannot check kernel state", { state: check.name, err: errorText(error) });
    }
    const elapsedMs = this.#clock.monotonicMs() - beganMs;
    const pauseMs = Math.min(elapsedMs * pauseFactor, check.intervalMs * mostIntervals);
    this.#schedule(check, Math.max(check.intervalMs, pauseMs));
  }
}

import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";

/** Pause between two looks while they cost little. */
const shortestPauseMs = 1_000;
/** However many drain: deadlines are not kept later than this. */
const longestPauseMs = 10_000;
/** A pause is this many times as long as a look in vain before it: at most a twentieth of the time. */
const pauseFactor = 20;

/** What a look found: nothing drains any more, all of it still waits, or some of it has ended. */
export type DrainFinding = "nothing" | "waiting" | "ending";

/** One look. */
export type DrainCheck = () => Promise<DrainFinding>;

/** Looks at draining real servers again and again while there are any, at a pace that stays cheap. */
export class DrainWatch {
  readonly #check: DrainCheck;
  readonly #clock: Clock;
  readonly #log: Logger;
  #isAwake = false;
  #isStopped = false;
  #pauseMs = shortestPauseMs;
  #cancelTimer: () => void = () => {};

  constructor(check: DrainCheck, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#check = check;
    this.#clock = clock;
    this.#log = log;
  }

  /** There is something to look at. Cheap; syncs in quick succession do not put the look off. */
  wake(): void {
    if (this.#isAwake || this.#isStopped) return;
    this.#isAwake = true;
    this.#cancelTimer = this.#clock.after(this.#pauseMs, () => {
      background(this.#look(), this.#log, "drain check");
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer();
  }

  async #look(): Promise<void> {
    const beganMs = this.#clock.monotonicMs();
    let finding: DrainFinding = "waiting";
    try {
      finding = await this.#check();
    } finally {
      const elapsedMs = this.#clock.monotonicMs() - beganMs;
      this.#pauseMs = finding === "waiting" ? pauseAfter(elapsedMs) : shortestPauseMs;
      this.#isAwake = false;
      if (finding !== "nothing") this.wake();
    }
  }
}

function pauseAfter(elapsedMs: number): number {
  return Math.min(Math.max(elapsedMs * pauseFactor, shortestPauseMs), longestPauseMs);
}

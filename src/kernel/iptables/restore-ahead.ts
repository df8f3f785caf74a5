/** Restores that are started before there is something to restore. */
import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { ProgramResult } from "../program.ts";

export interface RestoreAheadParts {
  readonly clock: Pick<Clock, "after">;
  /** Starts a restore of the family that reads its input once that is there. */
  readonly start: (family: IpFamily, input: Promise<string>) => Promise<ProgramResult>;
}

/** Who waits longer ends, having done nothing. */
export const longestWaitMs = 60_000;

interface Waiting {
  readonly give: (input: string) => void;
  readonly result: Promise<ProgramResult>;
}

/**
 * Starting a program copies the page tables of ours, and afterwards each page that we write is a page fault: both cost most
 * in the middle of a first sync, when the heap is large and busy, and least before the lists arrive. A restore takes no
 * lock and reads no table before its first line of input.
 */
export class RestoreAhead {
  readonly #parts: RestoreAheadParts;
  readonly #waiting = new Map<IpFamily, Waiting>();
  #isClosed = false;

  constructor(parts: RestoreAheadParts) {
    this.#parts = parts;
  }

  /** Never throws: where it cannot be started, {@link take} gives nothing. */
  start(family: IpFamily): void {
    if (this.#isClosed) return;
    const { promise: input, resolve: give } = Promise.withResolvers<string>();
    const waiting = { give, result: this.#parts.start(family, input) };
    this.#waiting.set(family, waiting);
    const forget = (): void => {
      if (this.#waiting.get(family) === waiting) this.#waiting.delete(family);
    };
    const cancel = this.#parts.clock.after(longestWaitMs, () => {
      // Before its input ends: it ends a while later, and until then nobody may give it what it no longer reads.
      forget();
      give("");
    });
    const over = (): void => {
      cancel();
      forget();
    };
    waiting.result.then(over, over);
  }

  /** Gives the input to the restore that waits, and its end. Undefined: none does. */
  take(family: IpFamily, input: string): Promise<ProgramResult> | undefined {
    const waiting = this.#waiting.get(family);
    this.#waiting.delete(family);
    waiting?.give(input);
    return waiting?.result;
  }

  /** Ends those that wait; none starts any more. */
  close(): void {
    this.#isClosed = true;
    for (const { give } of this.#waiting.values()) give("");
    this.#waiting.clear();
  }
}

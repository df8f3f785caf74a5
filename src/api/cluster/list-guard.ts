import type { Clock } from "../../base/clock.ts";
import type { ListQuarantine } from "../source.ts";

export interface ListGuardOptions {
  readonly clock: Clock;
  /** A list may take away so much of the known addresses, in percent; 0: as much as it likes. */
  readonly percent: number;
  readonly onQuarantine: (quarantine: Omit<ListQuarantine, "kind">) => void;
}

/** Below this number half of what is known is an everyday change. */
const fewestKnown = 10;
/** Pause before the second list: the server may be starting, its cache half full. */
export const confirmAfterMs = 10_000;
/** No list is held longer, whatever happens to the second one. */
const longestHoldMs = 60_000;

/** What a list has. */
export interface JudgedList {
  /** Addresses, or whatever else is counted. */
  readonly keys: ReadonlySet<string>;
  /** Objects, with such keys or without. */
  readonly objectCount: number;
}

/**
 * Says whether a list without `missing` of `known` addresses takes away too much. One without any object does, however few are
 * known: each cluster has the Service `kubernetes` and its slice.
 */
export function isImplausible(
  counts: { readonly known: number; readonly missing: number; readonly objectCount: number },
  percent: number,
): boolean {
  const { known, missing, objectCount } = counts;
  if (percent <= 0 || missing * 100 <= known * percent) return false;
  return known >= fewestKnown || objectCount === 0;
}

/** How many of the known addresses a list does not have. */
export function countMissing(known: ReadonlySet<string>, listed: ReadonlySet<string>): number {
  let missing = 0;
  for (const address of known) if (!listed.has(address)) missing += 1;
  return missing;
}

/**
 * Quarantines a list that would remove much of what is known: a server that lost its data, or came back
 * with old data, must not empty the node. The second such list in a row counts, and so does the first
 * after a minute. Watch events are never quarantined: each is something that was done.
 */
export class ListGuard {
  readonly #parts: ListGuardOptions;
  #cancelHold: (() => void) | undefined;

  constructor(parts: ListGuardOptions) {
    this.#parts = parts;
  }

  /**
   * Calls `take` at once where the list is believed. Otherwise says false, and calls it after a minute
   * unless another list was judged before.
   */
  judge(known: ReadonlySet<string>, listed: JudgedList, take: () => void): boolean {
    const counts = { known: known.size, missing: countMissing(known, listed.keys) };
    const { clock, percent, onQuarantine } = this.#parts;
    const isSecond = this.#cancelHold !== undefined;
    const { objectCount } = listed;
    const isBelieved = !isImplausible({ ...counts, objectCount }, percent);
    if (isBelieved || isSecond) {
      if (isSecond) onQuarantine({ ...counts, outcome: isBelieved ? "refuted" : "confirmed" });
      this.stop();
      take();
      return true;
    }
    this.#cancelHold = clock.after(longestHoldMs, () => {
      this.#cancelHold = undefined;
      onQuarantine({ ...counts, outcome: "expired" });
      take();
    });
    onQuarantine({ ...counts, outcome: "held" });
    return false;
  }

  /** What is held is forgotten. */
  stop(): void {
    this.#cancelHold?.();
    this.#cancelHold = undefined;
  }
}

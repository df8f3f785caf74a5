import type { Clock } from "../../base/clock.ts";
import type { ListQuarantine } from "../source.ts";

export interface ListGuardParts {
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

/** Says whether a list without `missing` of `known` addresses takes away too much. */
export function isImplausible(
  { known, missing }: { readonly known: number; readonly missing: number },
  percent: number,
): boolean {
  return percent > 0 && known >= fewestKnown && missing * 100 > known * percent;
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
  readonly #parts: ListGuardParts;
  #cancelHold: (() => void) | undefined;

  constructor(parts: ListGuardParts) {
    this.#parts = parts;
  }

  /**
   * Calls `take` at once where the list is believed. Otherwise says false, and calls it after a minute
   * unless another list was judged before.
   */
  judge(known: ReadonlySet<string>, listed: ReadonlySet<string>, take: () => void): boolean {
    const counts = { known: known.size, missing: countMissing(known, listed) };
    const { clock, percent, onQuarantine } = this.#parts;
    const isSecond = this.#cancelHold !== undefined;
    const isBelieved = !isImplausible(counts, percent);
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

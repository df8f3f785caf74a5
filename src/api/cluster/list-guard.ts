import type { Clock } from "../../base/clock.ts";
import type { ListQuarantine } from "../source.ts";

export interface ListGuardOptions {
  readonly clock: Clock;
  /** Maximum share of the known addresses that a list may remove, in percent. 0 means no limit. */
  readonly percent: number;
  readonly onQuarantine: (quarantine: Omit<ListQuarantine, "kind">) => void;
}

/** With fewer known addresses than this, removing half of them is a normal change. */
const fewestKnown = 10;
/** Delay before the second list. The server may be starting with an incomplete cache. */
export const confirmAfterMs = 10_000;
/** Maximum duration of a quarantine. The list is then applied even if no second list has arrived. */
const longestHoldMs = 60_000;

/** The contents of a list as the relist guard judges them. */
export interface JudgedList {
  /** Addresses or other keys to count. */
  readonly keys: ReadonlySet<string>;
  /** Number of objects, including objects without keys. */
  readonly objectCount: number;
}

/**
 * Whether a list that lacks `missing` of `known` addresses would remove too much. With few known addresses, only a list
 * without any objects is implausible, because each cluster has the Service `kubernetes` and its slice.
 */
export function isImplausible(
  counts: { readonly known: number; readonly missing: number; readonly objectCount: number },
  percent: number,
): boolean {
  const { known, missing, objectCount } = counts;
  if (percent <= 0 || missing * 100 <= known * percent) return false;
  return known >= fewestKnown || objectCount === 0;
}

/** Number of known addresses that a list lacks. */
export function countMissing(known: ReadonlySet<string>, listed: ReadonlySet<string>): number {
  let missing = 0;
  for (const address of known) if (!listed.has(address)) missing += 1;
  return missing;
}

/**
 * Quarantines a list that would remove too many known objects. A server that lost its data, or came back with old data,
 * must not empty the node. A second such list in a row is applied. If none arrives, the first one is applied after a
 * minute. Watch events are never quarantined, because each one reports an actual change.
 */
export class ListGuard {
  readonly #parts: ListGuardOptions;
  #cancelHold: (() => void) | undefined;

  constructor(parts: ListGuardOptions) {
    this.#parts = parts;
  }

  /**
   * If the list is plausible, calls `take` immediately and returns true. Otherwise returns false, and calls `take`
   * after a minute unless another list is judged first.
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

  /** Discards a quarantined list. */
  stop(): void {
    this.#cancelHold?.();
    this.#cancelHold = undefined;
  }
}

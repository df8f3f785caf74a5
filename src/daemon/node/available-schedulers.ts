import type { ServiceRecord } from "../../api/objects.ts";
import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import { knownSchedulers } from "../../base/scheduler.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import { requestedScheduler } from "../../model/annotations.ts";

export interface AvailableSchedulersParts {
  readonly ipvs: Pick<Ipvs, "checkScheduler">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly families: readonly IpFamily[];
}

/** The kernel is asked again for a scheduler that it did not have: someone may have loaded the module. */
const recheckMs = 60_000;
/**
 * Whoever may write Services could have the kernel look for modules without end: of the names that it does not have, those
 * beyond count as missing. Names of Linux come first, so that made-up ones cannot crowd them out.
 */
const mostNames = 64;

/** Asks the kernel for the schedulers that Services name in annotations, each once. */
export class AvailableSchedulers {
  readonly #parts: AvailableSchedulersParts;
  /** Names that Services ask for, with how many do. */
  readonly #requests = new Map<string, number>();
  /** They are not asked for again. */
  readonly #present = new Set<string>();
  #missing: ReadonlySet<string> = new Set();
  /** When those that are missing were asked for last. */
  #checkedMs: number | undefined;

  constructor(parts: AvailableSchedulersParts) {
    this.#parts = parts;
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    const after = current === undefined ? undefined : requestedScheduler(current);
    const before = previous === undefined ? undefined : requestedScheduler(previous);
    if (after !== undefined) this.#requests.set(after, (this.#requests.get(after) ?? 0) + 1);
    if (before === undefined) return;
    const rest = (this.#requests.get(before) ?? 1) - 1;
    if (rest > 0) this.#requests.set(before, rest);
    else this.#requests.delete(before);
  }

  /** Monotonic; when a scheduler that is missing is to be asked for again. Undefined: none is missing. */
  get nextCheckMs(): number | undefined {
    if (this.#missing.size === 0 || this.#checkedMs === undefined) return undefined;
    return this.#checkedMs + recheckMs;
  }

  /** Those that are asked for and not there. The same object while nothing in it differs. */
  async refresh(): Promise<ReadonlySet<string>> {
    const nowMs = this.#parts.clock.monotonicMs();
    const isDue = (this.nextCheckMs ?? Number.POSITIVE_INFINITY) <= nowMs;
    const missing = new Set<string>();
    for (const [rank, name] of this.#namesToAsk().entries()) {
      const isKnownMissing = this.#missing.has(name) && !isDue;
      if (rank >= mostNames || isKnownMissing || !(await this.#isThere(name))) missing.add(name);
    }
    if (isDue || missing.size > this.#missing.size) this.#checkedMs = nowMs;
    if (!sameSet(missing, this.#missing)) this.#missing = missing;
    return this.#missing;
  }

  #namesToAsk(): readonly string[] {
    const names = [...this.#requests.keys()].filter((name) => !this.#present.has(name));
    const isKnown = (name: string): boolean => knownSchedulers.includes(name);
    return [...names.filter(isKnown), ...names.filter((name) => !isKnown(name))];
  }

  /** What cannot be asked counts as missing: the default scheduler works. */
  async #isThere(name: string): Promise<boolean> {
    const { ipvs, families } = this.#parts;
    try {
      for (const family of families) await ipvs.checkScheduler(name, family);
    } catch {
      return false;
    }
    this.#present.add(name);
    return true;
  }
}

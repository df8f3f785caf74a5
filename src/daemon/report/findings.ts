import type { ClusterEvent } from "../../api/event.ts";
import type { LogKeys } from "../../base/log.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/** Something that is wrong, in words for log and Events. */
export interface Finding {
  /** The same as long as it lasts. */
  readonly key: string;
  /** Defaults to `warn`. */
  readonly level?: "info";
  readonly begins: string;
  readonly keys: LogKeys;
  /** If undefined, the end is not logged. */
  readonly ends?: string;
  readonly event?: ClusterEvent;
}

/** Monotonic. */
export type Lasting<T> = T & { readonly sinceMs: number };

/** What is wrong now, of one kind: a line and an Event when it begins, a line when it ends. */
export class Findings<T> {
  readonly #targets: Pick<ReportTargets, "log" | "events" | "clock">;
  readonly #describe: (one: T) => Finding;
  #present: ReadonlyMap<string, Lasting<T>> = new Map();

  constructor(
    targets: Pick<ReportTargets, "log" | "events" | "clock">,
    describe: (one: T) => Finding,
  ) {
    this.#targets = targets;
    this.#describe = describe;
  }

  /** Takes all that there are now, each once. Gives them with their beginning. */
  replace(found: readonly T[]): readonly Lasting<T>[] {
    if (found.length === 0 && this.#present.size === 0) return [];
    const { log, events, clock } = this.#targets;
    const nowMs = clock.monotonicMs();
    const present = new Map<string, Lasting<T>>();
    for (const one of found) {
      const { key, level = "warn", begins, keys, event } = this.#describe(one);
      const known = this.#present.get(key);
      if (known === undefined && !present.has(key)) {
        log[level](begins, keys);
        if (event !== undefined) events.record(event);
      }
      present.set(key, { ...one, sinceMs: known?.sinceMs ?? nowMs });
    }
    for (const [key, one] of this.#present) {
      if (present.has(key)) continue;
      const { ends, keys } = this.#describe(one);
      if (ends !== undefined) log.info(ends, keys);
    }
    this.#present = present;
    return [...present.values()];
  }
}

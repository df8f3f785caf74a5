import type { ClusterEvent } from "../../api/event.ts";
import type { LogKeys } from "../../base/log.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/** A problem, described for logs and Events. */
export interface Finding {
  /** Identifies the problem while it lasts. */
  readonly key: string;
  /** Defaults to `warn`. */
  readonly level?: "info" | "error";
  readonly begins: string;
  readonly keys: LogKeys;
  /** Logged when the problem ends. If undefined, the end is not logged. */
  readonly ends?: string;
  /** Logged in addition to `keys` when the problem ends. */
  readonly endKeys?: LogKeys;
  readonly events?: readonly ClusterEvent[];
}

/**
 * Returns a function that takes all current problems and sets the gauge to their number for each combination of labels.
 * A combination without a problem gets 0 if it is `known` or had a problem before.
 */
export function countBy<T, Labels extends Readonly<Record<string, string>>>(
  gauge: { set(labels: Labels, count: number): void },
  labelsOf: (one: T) => Labels,
  known: readonly Labels[] = [],
): (found: readonly T[]) => void {
  const all = new Map(known.map((labels) => [JSON.stringify(labels), labels]));
  return (found) => {
    const groups = Map.groupBy(found.map(labelsOf), (labels) => JSON.stringify(labels));
    for (const [key, [labels]] of groups) if (labels !== undefined) all.set(key, labels);
    for (const [key, labels] of all) gauge.set(labels, groups.get(key)?.length ?? 0);
  };
}

/** A value with the monotonic time at which it began. */
export type Lasting<T> = T & { readonly sinceMs: number };

/**
 * The current problems of one kind. Logs a line and records an Event when a problem begins, logs a line when it ends, and
 * counts the problems in between.
 */
export class Findings<T> {
  readonly #targets: Pick<ReportTargets, "log" | "events" | "clock">;
  readonly #describe: (one: T) => Finding;
  readonly #count: (found: readonly T[]) => void;
  #present: ReadonlyMap<string, Lasting<T>> = new Map();

  constructor(
    targets: Pick<ReportTargets, "log" | "events" | "clock">,
    describe: (one: T) => Finding,
    count: (found: readonly T[]) => void = () => {},
  ) {
    this.#targets = targets;
    this.#describe = describe;
    this.#count = count;
  }

  /** Replaces the current problems with `found`, and returns these with the times at which they began. */
  replace(found: readonly T[]): readonly Lasting<T>[] {
    this.#count(found);
    if (found.length === 0 && this.#present.size === 0) return [];
    const { log, events, clock } = this.#targets;
    const nowMs = clock.monotonicMs();
    const present = new Map<string, Lasting<T>>();
    for (const one of found) {
      const { key, level = "warn", begins, keys, events: news = [] } = this.#describe(one);
      const known = this.#present.get(key);
      if (known === undefined && !present.has(key)) {
        log[level](begins, keys);
        for (const event of news) events.record(event);
      }
      present.set(key, { sinceMs: known?.sinceMs ?? nowMs, ...one });
    }
    for (const [key, one] of this.#present) {
      if (present.has(key)) continue;
      const { ends, keys, endKeys } = this.#describe(one);
      if (ends !== undefined) log.info(ends, { ...keys, ...endKeys });
    }
    this.#present = present;
    return [...present.values()];
  }
}

import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { ChangeKind } from "../../reconcile/change.ts";
import type { ChangePlan } from "../../reconcile/change-plan.ts";
import { changeText } from "../../reconcile/render/plan-text.ts";

/** Changes that are logged one by one at every verbosity; the others are there from 2 on. */
const maxLines = 50;

/** While only observing: what a sync would change, logged where it differs from the sync before. */
export class DryRunReporter {
  readonly #metrics: Pick<Metrics, "pendingChanges">;
  readonly #log: Logger;
  #counts: ReadonlyMap<ChangeKind, number> = new Map();
  #logged: ReadonlySet<string> = new Set();
  #isFirst = true;

  constructor({
    metrics,
    log,
  }: {
    readonly metrics: Pick<Metrics, "pendingChanges">;
    readonly log: Logger;
  }) {
    this.#metrics = metrics;
    this.#log = log;
  }

  planned(plan: ChangePlan): void {
    const counts = countByKind(plan);
    for (const kind of this.#counts.keys()) {
      if (!counts.has(kind)) this.#metrics.pendingChanges(kind, 0);
    }
    for (const [kind, count] of counts) this.#metrics.pendingChanges(kind, count);
    const lines = new Set(plan.changes.map(changeText));
    const isSame =
      lines.size === this.#logged.size && [...lines].every((one) => this.#logged.has(one));
    if (!isSame || this.#isFirst) this.#logPlan(plan, counts);
    this.#counts = counts;
    this.#logged = lines;
    this.#isFirst = false;
  }

  #logPlan(plan: ChangePlan, counts: ReadonlyMap<ChangeKind, number>): void {
    const total = plan.changes.length;
    this.#log.info("Observing only, would change", {
      changes: total,
      ...Object.fromEntries(counts),
    });
    for (const [index, change] of plan.changes.entries()) {
      const text = changeText(change);
      if (this.#logged.has(text)) continue;
      const services = plan.servicesOf(change);
      const keys = {
        change: text,
        reason: change.reason,
        ...(services.length > 0 ? { services } : {}),
      };
      if (index < maxLines) this.#log.info("Would change", keys);
      else this.#log.verbose(2, "Would change", keys);
    }
    if (total > maxLines) {
      const count = total - maxLines;
      this.#log.info("Suppressing similar messages below -v=2", { of: "Would change", count });
    }
  }
}

function countByKind({ changes }: ChangePlan): ReadonlyMap<ChangeKind, number> {
  const counts = new Map<ChangeKind, number>();
  for (const { kind } of changes) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

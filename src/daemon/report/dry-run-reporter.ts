import { sameSet } from "../../base/same-set.ts";
import type { ServiceName } from "../../base/service-name.ts";
import type { ChangePlan } from "../../reconcile/change-plan.ts";
import { changeText } from "../../reconcile/plan-object.ts";
import { countBy } from "./findings.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/** A change that a sync would make, in its logged form. */
export interface PendingChange {
  readonly kind: string;
  /** For example: `+ virtual server TCP 10.96.0.10:80 (rr)`. */
  readonly text: string;
  readonly reason: string;
  readonly servicesOf: () => readonly ServiceName[];
}

export function pendingChanges(plan: ChangePlan): readonly PendingChange[] {
  return plan.changes.map((change) => ({
    kind: change.kind,
    text: changeText(change),
    reason: change.reason,
    servicesOf: () => plan.servicesOf(change),
  }));
}

/** In observe-only mode, logs what a sync would change, unless this is the same as in the previous sync. */
export class DryRunReporter {
  readonly #targets: Pick<ReportTargets, "metrics" | "log">;
  readonly #count: (changes: readonly PendingChange[]) => void;
  #logged: ReadonlySet<string> = new Set();
  #isFirst = true;

  constructor(targets: Pick<ReportTargets, "metrics" | "log">) {
    this.#targets = targets;
    this.#count = countBy(targets.metrics.pendingChanges, ({ kind }) => ({ kind }));
  }

  planned(changes: readonly PendingChange[]): void {
    this.#count(changes);
    const lines = new Set(changes.map(({ text }) => text));
    if (!sameSet(lines, this.#logged) || this.#isFirst) this.#logAll(changes);
    this.#logged = lines;
    this.#isFirst = false;
  }

  #logAll(changes: readonly PendingChange[]): void {
    const { log } = this.#targets;
    const total = changes.length;
    const counts = [...Map.groupBy(changes, ({ kind }) => kind)].map(([kind, those]) => [
      kind,
      those.length,
    ]);
    log.info("Observing only: pending changes", { changes: total, ...Object.fromEntries(counts) });
    for (const { text, reason, servicesOf } of changes) {
      if (this.#logged.has(text)) continue;
      const services = servicesOf();
      const keys = { change: text, reason, ...(services.length > 0 ? { services } : {}) };
      log.info("Would change", keys);
    }
  }
}

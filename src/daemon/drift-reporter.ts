import type { Logger } from "../base/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { driftKinds } from "../reconcile/drift.ts";
import { thingOf } from "../reconcile/repair-guard.ts";
import type { ChangeKind, SyncReport } from "../reconcile/report.ts";

/** Tells what others changed, who fights us, and what would be changed if we did not only observe. */
export class DriftReporter {
  readonly #metrics: Pick<Metrics, "drifted" | "repairStorms" | "pendingChanges">;
  readonly #log: Logger;
  #toldStorms = new Map<string, { readonly kind: string; readonly subject: string }>();
  #pending: ReadonlyMap<ChangeKind, number> = new Map();

  constructor({
    metrics,
    log,
  }: {
    readonly metrics: Pick<Metrics, "drifted" | "repairStorms" | "pendingChanges">;
    readonly log: Logger;
  }) {
    this.#metrics = metrics;
    this.#log = log;
  }

  /** The audit: a line for each thing that others changed. */
  drifted({ drifts }: SyncReport): void {
    for (const { kind, subject, before, after, action } of drifts) {
      this.#metrics.drifted(kind, action);
      // The reason keeps a flood of one kind from hiding the others.
      const keys = { kind, subject, before, after, action, reason: `drift-${kind}` };
      this.#log.warn("Kernel state was changed by others", keys);
    }
  }

  /** Each storm is told when it begins and when it ends. */
  storms({ storms }: SyncReport): void {
    for (const kind of driftKinds) {
      this.#metrics.repairStorms(kind, storms.filter((storm) => storm.kind === kind).length);
    }
    const present = new Map(storms.map((storm) => [thingOf(storm), storm]));
    for (const [thing, { kind, subject, driftCount, holdMs }] of present) {
      if (this.#toldStorms.has(thing)) continue;
      const keys = { kind, subject, times: driftCount, pause: `${holdMs / 1000}s` };
      this.#log.warn("Somebody undoes a repair again and again; it waits, longer each time", {
        ...keys,
        reason: "repair-storm",
      });
    }
    for (const [thing, { kind, subject }] of this.#toldStorms) {
      if (present.has(thing)) continue;
      const keys = { kind, subject, reason: "repair-storm" };
      this.#log.info("A repair is not undone any more", keys);
    }
    this.#toldStorms = present;
  }

  /** While only observing: what a sync would have changed; told when it is not the same as before. */
  pending({ changes }: SyncReport): void {
    for (const kind of this.#pending.keys()) {
      if (!changes.has(kind)) this.#metrics.pendingChanges(kind, 0);
    }
    for (const [kind, count] of changes) this.#metrics.pendingChanges(kind, count);
    if (!sameCounts(changes, this.#pending)) {
      this.#log.info("Observing only: this would be changed", {
        ...Object.fromEntries(changes),
        ...(changes.size === 0 ? { changes: 0 } : {}),
      });
    }
    this.#pending = changes;
  }
}

function sameCounts(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): boolean {
  return one.size === other.size && [...one].every(([kind, count]) => other.get(kind) === count);
}

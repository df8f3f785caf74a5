import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { KnownNode } from "../node/known-node.ts";

export interface PlanAheadContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly plan: ClusterPlan;
  readonly node: KnownNode;
  /** Prevents planning ahead and a sync from overlapping because a sync also plans. */
  readonly exclusive: Exclusive;
  readonly isListing: () => boolean;
}

/**
 * Minimum number of objects between two passes: half a list page. Passes are then frequent enough that little work
 * remains after the last page.
 */
const fewestNotes = 256;
/**
 * Each pass examines all pending Services. If many are pending, a pass starts only when the number of new objects
 * reaches an eighth of them.
 */
const pendingPerNote = 8;

/** Plans Services while their lists arrive so that the first sync has little left to plan. Writes nothing. */
export class PlanAhead {
  readonly #parts: PlanAheadContext;
  /** Whether a pass is running. Remains true if a pass fails; the first sync then reports the error. */
  #isBusy = false;
  /** Number of objects since the last pass started, including slices, which may complete a pending Service. */
  #notes = 0;

  constructor(parts: PlanAheadContext) {
    this.#parts = parts;
  }

  /** Call this for each listed object. It is cheap. */
  note(): void {
    const { plan, log, isListing, exclusive } = this.#parts;
    this.#notes += 1;
    const fewest = Math.max(fewestNotes, plan.tracker.pendingCount / pendingPerNote);
    if (this.#isBusy || this.#notes < fewest || !isListing()) return;
    this.#isBusy = true;
    this.#notes = 0;
    background(
      exclusive.run(() => this.#pass()),
      log,
      "planning ahead",
    );
  }

  async #pass(): Promise<void> {
    const { clock, plan, node, isListing } = this.#parts;
    const options = await node.refresh();
    if (isListing()) await inSlices(clock, plan.updateAhead(options));
    this.#isBusy = false;
  }
}

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
  /** A sync plans too: never both at once. */
  readonly exclusive: Exclusive;
  readonly isListing: () => boolean;
}

/** Half a page of the list: often enough that little is left at its end. */
const fewestNotes = 256;
/** A pass goes through all that is pending: where that is much, it begins after an eighth of it. */
const pendingPerNote = 8;

/** Plans Services while their lists arrive, so that the first sync has little left to plan. Writes nothing. */
export class PlanAhead {
  readonly #parts: PlanAheadContext;
  /** A pass runs; or one failed, and what is wrong is for the first sync to say. */
  #isBusy = false;
  /** Objects since the last pass began: a slice may be what a Service waits for that is pending already. */
  #notes = 0;

  constructor(parts: PlanAheadContext) {
    this.#parts = parts;
  }

  /** Something was listed. Cheap: it is called for each object. */
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

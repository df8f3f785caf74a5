import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Exclusive } from "../../base/exclusive.ts";
import type { Logger } from "../../base/log.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { KnownNode } from "../node/known-node.ts";

export interface PlanAheadParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly plan: ClusterPlan;
  readonly node: KnownNode;
  /** A sync plans too: never both at once. */
  readonly exclusive: Exclusive;
  readonly isListing: () => boolean;
}

/** Half a page of the list: often enough that little is left at its end. */
const fewestPending = 256;

/** Plans Services while their lists arrive, so that the first sync has little left to plan. Writes nothing. */
export class PlanAhead {
  readonly #parts: PlanAheadParts;
  /** A pass runs; or one failed, and what is wrong is for the first sync to say. */
  #isBusy = false;
  /** Left pending by the last pass: Services of which no slice is here yet. */
  #leftCount = 0;

  constructor(parts: PlanAheadParts) {
    this.#parts = parts;
  }

  /** Something was listed. Cheap: it is called for each object. */
  note(): void {
    const { plan, log, isListing, exclusive } = this.#parts;
    if (this.#isBusy || plan.tracker.pendingCount < this.#leftCount + fewestPending || !isListing())
      return;
    this.#isBusy = true;
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
    this.#leftCount = plan.tracker.pendingCount;
    this.#isBusy = false;
  }
}

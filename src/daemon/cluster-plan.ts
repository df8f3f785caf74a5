import type { EndpointSliceRecord, ServiceRecord } from "../api/objects.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import { ChangeTracker, type PendingChanges } from "../model/change-tracker.ts";
import { DesiredState } from "../plan/desired-state.ts";
import type { PlanOptions } from "../plan/options.ts";
import { planService, type ServicePlan } from "../plan/planner.ts";
import { RulesMemory } from "../plan/rules-memory.ts";
import type { SyncGoal } from "../reconcile/sync-context.ts";
import type { RuleSet } from "../state/rule.ts";
import type { LiveConfig } from "./live-config.ts";
import { apiServerService, endpointAddresses } from "./node-network.ts";
import { sysctlsOf } from "./prepare-kernel.ts";

export interface ClusterPlanParts {
  readonly live: LiveConfig;
  /** Milliseconds since the epoch; changes triggered before say nothing about our speed. */
  readonly startedAtMs: number;
  /** Told of each plan of a Service as it is made. */
  readonly onPlan: (plan: ServicePlan) => void;
}

/** Services and slices as told last, and what they want in the kernel. Touches nothing outside. */
export class ClusterPlan {
  readonly #live: LiveConfig;
  readonly #onPlan: (plan: ServicePlan) => void;
  readonly #tracker: ChangeTracker;
  readonly #desired = new DesiredState();
  readonly #rulesMemory = new RulesMemory();
  #options: PlanOptions | undefined;

  constructor({ live, startedAtMs, onPlan }: ClusterPlanParts) {
    this.#live = live;
    this.#onPlan = onPlan;
    this.#tracker = new ChangeTracker(startedAtMs);
  }

  get desired(): DesiredState {
    return this.#desired;
  }

  get serviceCount(): number {
    return this.#tracker.serviceCount;
  }

  /** Services touched since the last {@link update}. */
  get pendingCount(): number {
    return this.#tracker.pendingCount;
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    this.#tracker.noteService(previous, current);
  }

  noteSlice(
    previous: EndpointSliceRecord | undefined,
    current: EndpointSliceRecord | undefined,
  ): void {
    this.#tracker.noteSlice(previous, current);
  }

  /** The API servers, as the endpoints of their Service tell. */
  apiServerAddresses(): readonly IpAddress[] {
    return endpointAddresses(this.#tracker.slicesOf(apiServerService));
  }

  /** Plans what was touched, and every Service where the options are others than before; yields after each. */
  *update(options: PlanOptions): Generator<void, PendingChanges> {
    if (options !== this.#options) this.#tracker.touchAll();
    this.#options = options;
    const pending = this.#tracker.take();
    for (const name of pending.services) {
      this.#planService(name, options);
      yield;
    }
    return pending;
  }

  /** What the next sync is to reach; `isFull`: everything is compared, not only what was planned anew. */
  takeGoal(nodeAddresses: ReadonlySet<IpAddress>, isFull: boolean): SyncGoal {
    const dirty = this.#desired.takeDirty();
    const families = [...(this.#options?.families.keys() ?? [])];
    return {
      desired: this.#desired,
      dirty: isFull ? "all" : dirty,
      touched: dirty,
      rules: new Map(families.map((family) => [family, this.#rules(family)])),
      nodeAddresses,
      sysctls: sysctlsOf(this.#live.current),
    };
  }

  #planService(name: string, options: PlanOptions): void {
    const service = this.#tracker.service(name);
    for (const plan of planService(name, service, this.#tracker.slicesOf(name), options)) {
      this.#desired.replace(plan.service, plan.family, plan.servicePorts);
      this.#onPlan(plan);
    }
  }

  #rules(family: IpFamily): RuleSet {
    const { isMasqueradeAll, masqueradeMark } = this.#live.current;
    return this.#rulesMemory.plan({
      family,
      filledSets: this.#desired.filledSets(family),
      deniedToNode: this.#desired.deniedToNode(family),
      localDetector: this.#options?.families.get(family)?.localDetector,
      isMasqueradeAll,
      masqueradeMark,
    });
  }
}

import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { ChangeTracker, type PendingChanges } from "../model/change-tracker.ts";
import type { RuleSet } from "../state/rule.ts";
import { DesiredState, type DirtyKeys } from "./desired-state.ts";
import type { PlanOptions } from "./options.ts";
import { planService, type ServicePlan } from "./planner.ts";
import { RulesMemory } from "./rules-memory.ts";

export interface ClusterPlanParts {
  /** Milliseconds since the epoch; changes triggered before say nothing about our speed. */
  readonly startedAtMs: number;
  /** Called with each plan of a Service as it is made. */
  readonly onPlan: (plan: ServicePlan) => void;
}

/** Services and slices as last known, and what they want in the kernel. Pure but for its own state. */
export class ClusterPlan {
  readonly #onPlan: (plan: ServicePlan) => void;
  readonly #tracker: ChangeTracker;
  readonly #desired = new DesiredState();
  readonly #rulesMemory = new RulesMemory();
  #options: PlanOptions | undefined;

  constructor({ startedAtMs, onPlan }: ClusterPlanParts) {
    this.#onPlan = onPlan;
    this.#tracker = new ChangeTracker(startedAtMs);
  }

  get desired(): DesiredState {
    return this.#desired;
  }

  get serviceCount(): number {
    return this.#tracker.serviceCount;
  }

  /** Counted each time. */
  get sliceCount(): number {
    return this.#tracker.sliceCount;
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

  serviceNames(): Iterable<ServiceName> {
    return this.#tracker.serviceNames();
  }

  service(name: ServiceName): ServiceRecord | undefined {
    return this.#tracker.service(name);
  }

  /** The slices of one Service. */
  slicesOf(service: ServiceName): Iterable<EndpointSliceRecord> {
    return this.#tracker.slicesOf(service);
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

  /** What the next sync is to reach, and what changed since the one before. */
  takeGoal(): {
    readonly touched: DirtyKeys;
    readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  } {
    const touched = this.#desired.takeDirty();
    const options = this.#options;
    const families = [...(options?.families.keys() ?? [])];
    const rules = families.map((family) => [family, this.#rules(family, options)] as const);
    return { touched, rules: new Map(rules) };
  }

  #planService(name: string, options: PlanOptions): void {
    const service = this.#tracker.service(name);
    for (const plan of planService(name, service, this.#tracker.slicesOf(name), options)) {
      this.#desired.replace(plan.service, plan.family, plan.servicePorts);
      this.#onPlan(plan);
    }
  }

  #rules(family: IpFamily, options: PlanOptions | undefined): RuleSet {
    return this.#rulesMemory.plan({
      family,
      filledSets: this.#desired.filledSets(family),
      deniedToNode: this.#desired.deniedToNode(family),
      localDetector: options?.families.get(family)?.localDetector,
      isMasqueradeAll: options?.isMasqueradeAll ?? false,
      masqueradeMark: options?.masqueradeMark ?? 0,
    });
  }
}

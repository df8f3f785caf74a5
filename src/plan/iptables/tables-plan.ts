import type { IpFamily } from "../../base/ip.ts";
import { sameSet } from "../../base/same-set.ts";
import { finish } from "../../base/time-slice.ts";
import { AnnotationProblems } from "../../model/annotation-problems.ts";
import {
  ChangeTracker,
  type PendingChanges,
  type ServiceObjects,
} from "../../model/change-tracker.ts";
import type { RuleSet } from "../../state/rule.ts";
import { type ClaimMemory, noClaimMemory } from "../claims/claim-memory.ts";
import type { PlanContext } from "../plan-context.ts";
import { DesiredTables } from "./desired-tables.ts";
import {
  type IptablesNodeOptions,
  type IptablesOptions,
  largeClusterEndpoints,
} from "./options.ts";
import { planServiceRules, type ServiceRules } from "./planner.ts";

export interface TablesPlanContext extends PlanContext {
  /** Called with each Service's plan, right after it is made. */
  readonly onPlan: (plan: ServiceRules) => void;
}

/** Keeps the last known Services and slices, and derives the desired rules from them. No I/O. */
export class TablesPlan {
  readonly tracker: ChangeTracker;
  readonly desired: DesiredTables;
  readonly annotationProblems: AnnotationProblems = new AnnotationProblems();
  readonly #claims: ClaimMemory;
  readonly #onPlan: (plan: ServiceRules) => void;
  #nodeOptions: IptablesNodeOptions | undefined;
  #options: IptablesOptions | undefined;

  constructor({ startedAtMs, onPlan, held, limits, claims }: TablesPlanContext) {
    this.#claims = claims ?? noClaimMemory();
    this.desired = new DesiredTables(held, this.#claims.ages);
    this.tracker = new ChangeTracker(startedAtMs, limits);
    this.#onPlan = onPlan;
  }

  /**
   * Plans every touched Service, or all Services if the options changed. Yields after each Service. All Services are
   * also replanned when the cluster becomes large or stops being large, because that changes the form of the rules.
   */
  *update(nodeOptions: IptablesNodeOptions): Generator<void, PendingChanges> {
    if (nodeOptions !== this.#nodeOptions || this.#options === undefined) {
      this.tracker.touchAll();
      const largeFamilies = this.#options?.largeFamilies ?? new Set();
      this.#options = { ...nodeOptions, largeFamilies };
      this.#nodeOptions = nodeOptions;
    }
    this.#claims.admission.refresh();
    const { services: taken, triggers } = this.tracker.take();
    const pending = { services: taken.map(({ name }) => name), triggers };
    let services = taken;
    for (;;) {
      yield* this.#planServices(services, this.#options);
      const largeFamilies = this.#largeFamilies(nodeOptions);
      if (sameSet(largeFamilies, this.#options.largeFamilies)) return pending;
      this.#options = { ...nodeOptions, largeFamilies };
      const planned = new Set(pending.services);
      services = [...taken, ...this.tracker.unchanged().filter(({ name }) => !planned.has(name))];
    }
  }

  /** Whether there has been an update. */
  get isPlanned(): boolean {
    return this.#options !== undefined;
  }

  /** Everything that a family's tables should contain. Throws before the first update. */
  ruleSet(family: IpFamily): RuleSet {
    return finish(this.ruleSetInSteps(family));
  }

  /** Like {@link ruleSet}, but yields after each shared chain. */
  ruleSetInSteps(family: IpFamily): Generator<void, RuleSet> {
    return this.desired.ruleSet(family, this.#planned);
  }

  get #planned(): IptablesOptions {
    if (this.#options === undefined)
      throw new Error("Rules were requested before they were planned");
    return this.#options;
  }

  /** Plans these Services. Ends early if the cluster turns out to be large, because all Services are then replanned. */
  *#planServices(
    services: Iterable<ServiceObjects>,
    options: IptablesOptions,
  ): Generator<void, void> {
    for (const objects of services) {
      this.annotationProblems.noteUntuned(objects.name, objects.service);
      const plans = yield* planServiceRules(objects, options, this.#claims.admission);
      for (const plan of plans) {
        yield* this.desired.replace(plan);
        this.#onPlan(plan);
        yield;
      }
      yield;
      const isNew = (family: IpFamily): boolean => !options.largeFamilies.has(family);
      if ([...this.#largeFamilies(options)].some(isNew)) return;
    }
  }

  #largeFamilies({ families }: IptablesNodeOptions): ReadonlySet<IpFamily> {
    const isLarge = (family: IpFamily): boolean =>
      this.desired.endpointCount(family) > largeClusterEndpoints;
    return new Set([...families.keys()].filter(isLarge));
  }
}

import type { ServiceName, ServiceRecord } from "../api/objects.ts";
import { familyOf, type HostPort, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { ServiceAddress } from "../base/service-name.ts";
import { AnnotationProblems } from "../model/annotation-problems.ts";
import { requestedScheduler } from "../model/annotations.ts";
import {
  ChangeTracker,
  type PendingChanges,
  type ServiceObjects,
} from "../model/change-tracker.ts";
import { noRampStartTimes, type RampStartTimes, SlowStarts } from "../model/slow-starts.ts";
import type { WeightAnswer } from "../model/tuning.ts";
import type { RuleSet } from "../state/rule.ts";
import { type ClaimMemory, noClaimMemory } from "./claims/claim-memory.ts";
import { DesiredState } from "./desired-state.ts";
import type { DirtyKeys } from "./dirty-keys.ts";
import type { PlanOptions } from "./options.ts";
import type { PlanContext } from "./plan-context.ts";
import { planServiceInSteps, type ServicePlan, tuningOf } from "./planner.ts";
import { RulesMemory } from "./rules-memory.ts";
import { type NodeFacts, noTuningFacts, type TuningFacts } from "./tuning-facts.ts";

export interface ClusterPlanContext extends PlanContext {
  /** Called with each Service's plan, right after it is made. */
  readonly onPlan: (plan: ServicePlan) => void;
  /**
   * Returns when a new endpoint's weight began to grow in an earlier run. Undefined if earlier runs recorded nothing.
   */
  readonly recallRamp?: RampStartTimes["recall"];
  /** See `TuningFacts.answerOf`. If undefined, no endpoint was asked for its weight. */
  readonly answerOf?: (service: ServiceName, address: IpAddress) => WeightAnswer | undefined;
  /** See `TuningFacts.isEjected`. If undefined, no endpoint is ejected. */
  readonly isEjected?: (service: ServiceName, endpointKey: HostPort) => boolean;
}

/** Keeps the last known Services and slices, and derives the desired kernel state from them. No I/O. */
export class ClusterPlan {
  readonly #onPlan: (plan: ServicePlan) => void;
  /** The last known objects, and which Services must be replanned. */
  readonly tracker: ChangeTracker;
  readonly desired: DesiredState;
  readonly #claims: ClaimMemory;
  readonly #rulesMemory = new RulesMemory();
  #options: PlanOptions | undefined;
  #facts: TuningFacts = noTuningFacts;
  readonly #slowStarts: SlowStarts;
  readonly #answerOf: NonNullable<ClusterPlanContext["answerOf"]>;
  readonly #isEjected: NonNullable<ClusterPlanContext["isEjected"]>;
  /** Services that {@link updateAhead} planned since the last {@link update}. */
  readonly #plannedAhead = new Set<ServiceName>();
  /** The inputs from which the Nodes for tunnels were last derived. */
  #notedNodes: { addresses?: TuningFacts["nodeAddresses"]; options?: PlanOptions | undefined } = {};
  readonly annotationProblems: AnnotationProblems = new AnnotationProblems();

  constructor(context: ClusterPlanContext) {
    const { startedAtMs, onPlan, recallRamp, answerOf, held, limits, claims } = context;
    this.#claims = claims ?? noClaimMemory();
    this.desired = new DesiredState(held, this.#claims.ages);
    this.#slowStarts = new SlowStarts(recallRamp ?? noRampStartTimes.recall);
    this.#answerOf = answerOf ?? (() => undefined);
    this.#isEjected = context.isEjected ?? (() => false);
    this.#onPlan = onPlan;
    this.tracker = new ChangeTracker(startedAtMs, limits);
  }

  /** The address by which the cluster knows the node. Undefined until the first update. */
  nodeIp(family: IpFamily): IpAddress | undefined {
    return this.#options?.families.get(family)?.nodeIp;
  }

  /** Replans Services whose requested scheduler became available or unavailable in the kernel. */
  noteMissingSchedulers(missing: ReadonlySet<string>): void {
    const before = this.#facts.missingSchedulers;
    if (missing === before) return;
    this.#facts = { ...this.#facts, missingSchedulers: missing };
    const isConcerned = (name: string): boolean => missing.has(name) !== before.has(name);
    this.tracker.touchWhere((service) => isConcerned(requestedScheduler(service) ?? ""));
  }

  /** Replans Services that depend on changed facts about Nodes. `options` supplies the default tuning. */
  noteNodes(nodes: NodeFacts, options: PlanOptions): void {
    const { nodeWeights, nodeGroups, nodeAddresses } = this.#facts;
    if (
      nodes.nodeWeights === nodeWeights &&
      nodes.nodeGroups === nodeGroups &&
      nodes.nodeAddresses === nodeAddresses
    )
      return;
    this.#facts = { ...this.#facts, ...nodes };
    this.tracker.touchWhere((service) => {
      const { weights, preference, isTunneled } = tuningOf(service, options, this.#facts).tuning;
      return weights === "node" || preference !== undefined || isTunneled === true;
    });
  }

  /** Monotonic time at which the next weight grows. Undefined if no endpoint is new. */
  get nextRampMs(): number | undefined {
    return this.#slowStarts.nextStepMs;
  }

  /** The start time of each growing weight, for the record on disk. Undefined if unchanged since the last call. */
  takeRamps(): ReadonlyMap<ServiceAddress, number> | undefined {
    return this.#slowStarts.takeStarted();
  }

  /**
   * Plans every touched Service, or all Services if the options changed. Yields after each Service. `nowMs` is
   * monotonic and determines the weights of new endpoints.
   */
  *update(options: PlanOptions, nowMs: number = 0): Generator<void, PendingChanges> {
    for (const name of this.#slowStarts.due(nowMs)) this.tracker.touch(name);
    this.#setOptions(options);
    const { services: taken, triggers } = this.tracker.take();
    for (const objects of taken) {
      yield* this.#planService(objects, options, nowMs);
      yield;
    }
    // Whether a Service's own ports are served by its port range depends on the other Services.
    const contenders = [...this.desired.contenders];
    this.desired.contenders.clear();
    for (const objects of this.tracker.unchangedOf(contenders))
      yield* this.#planService(objects, options, nowMs);
    const touched = taken.map(({ name }) => name);
    const services = this.#plannedAhead.size === 0 ? touched : this.#takePlannedAhead(touched);
    return { services, triggers };
  }

  /**
   * While the initial lists are still arriving, plans Services whose objects seem complete. Yields after each Service.
   * If more objects of a Service arrive later, that Service is replanned. Services with a slow start are planned only
   * by {@link update}, because the endpoints listed last would otherwise be mistaken for new ones.
   */
  *updateAhead(options: PlanOptions): Generator<void, void> {
    this.#setOptions(options);
    const isSlow = (service: ServiceRecord): boolean =>
      (tuningOf(service, options, this.#facts).tuning.slowStartMs ?? 0) > 0;
    for (const objects of this.tracker.takeListed((service) => !isSlow(service))) {
      yield* this.#planService(objects, options, 0);
      this.#plannedAhead.add(objects.name);
      yield;
    }
  }

  #takePlannedAhead(touched: readonly ServiceName[]): readonly ServiceName[] {
    for (const name of touched) this.#plannedAhead.add(name);
    const services = [...this.#plannedAhead];
    this.#plannedAhead.clear();
    return services;
  }

  #setOptions(options: PlanOptions): void {
    this.#claims.admission.refresh();
    if (options !== this.#options) this.tracker.touchAll();
    this.#options = options;
  }

  /**
   * Returns the next sync's goal, with the keys that changed since the previous call. Also settles the claims, so that
   * current owners keep their addresses.
   */
  takeGoal(): {
    readonly touched: DirtyKeys;
    readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  } {
    this.desired.claims.settle();
    const options = this.#options;
    this.#noteTunnelNodes(options);
    const touched = this.desired.takeDirty();
    const families = [...(options?.families.keys() ?? [])];
    const rules = families.map((family) => [family, this.#rules(family, options)] as const);
    return { touched, rules: new Map(rules) };
  }

  #noteTunnelNodes(options: PlanOptions | undefined): void {
    const { nodeAddresses } = this.#facts;
    if (nodeAddresses === this.#notedNodes.addresses && options === this.#notedNodes.options)
      return;
    this.#notedNodes = { addresses: nodeAddresses, options };
    const all = options?.tunnels === undefined ? [] : [...nodeAddresses.values()].flat();
    for (const family of options?.families.keys() ?? []) {
      const ofFamily = all.filter((address) => familyOf(address) === family);
      this.desired.noteTunnelNodes(family, ofFamily);
    }
  }

  /** The rules of the current plan. A sync may not have written all of them yet. */
  rulesOf(family: IpFamily): RuleSet {
    return this.#rules(family, this.#options);
  }

  /** Plans one Service. Yields while planning it, because a Service may have thousands of ports and endpoints. */
  *#planService(
    objects: ServiceObjects,
    options: PlanOptions,
    nowMs: number,
  ): Generator<void, void> {
    const { name, service, slices } = objects;
    const { slowStartMs = 0 } = tuningOf(service, options, this.#facts).tuning;
    const periodMs = service === undefined ? 0 : slowStartMs;
    this.#slowStarts.note(name, slices, { periodMs, nowMs });
    const facts: TuningFacts = {
      ...this.#facts,
      admission: this.#claims.admission,
      isRangeLost: (key) => this.desired.isOfAnother(name, key),
      rampStep: (address) => this.#slowStarts.stepOf(name, address, nowMs),
      answerOf: (address) => this.#answerOf(name, address),
      isEjected: (key) => this.#isEjected(name, key),
    };
    const plans = yield* planServiceInSteps(objects, options, facts);
    for (const plan of plans) {
      this.annotationProblems.note(plan.service, plan.annotationProblems);
      yield* this.desired.replaceInSteps(plan.service, plan.family, plan.servicePorts);
      this.#onPlan(plan);
    }
  }

  #rules(family: IpFamily, options: PlanOptions | undefined): RuleSet {
    return this.#rulesMemory.plan({
      family,
      filledSets: this.desired.filledSets(family),
      deniedToNode: this.desired.deniedToNode(family),
      localDetector: options?.families.get(family)?.localDetector,
      edges: options?.families.get(family)?.edges,
      masqueradeAll: options?.masqueradeAll ?? false,
      masqueradeMark: options?.masqueradeMark ?? 0,
      portRangeMarks: options?.portRangeMarks,
      ranges: this.desired.ranges(family),
      isTunnelingEnabled: options?.tunnels !== undefined,
      tunnels: this.desired.tunnels(family),
      tunnelsWithoutMark: this.desired.tunnelsWithoutMark(family),
    });
  }
}

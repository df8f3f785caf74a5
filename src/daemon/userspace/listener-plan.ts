import type { ServiceName } from "../../api/objects.ts";
import { none } from "../../base/none.ts";
import { AnnotationProblems } from "../../model/annotation-problems.ts";
import { ChangeTracker, type PendingChanges } from "../../model/change-tracker.ts";
import { noClaimMemory } from "../../plan/claims/claim-memory.ts";
import type { PortAdmission } from "../../plan/claims/port-admission.ts";
import type { PlanOptions } from "../../plan/options.ts";
import type { PlanContext } from "../../plan/plan-context.ts";
import {
  type ServiceListener,
  serviceListenersInSteps,
} from "../../userspace/service-listeners.ts";
import { PortalClaims } from "./portal-claims.ts";

/** The result of an update. */
interface UpdatedListeners {
  readonly pending: PendingChanges;
  readonly changed: ReadonlyMap<ServiceName, readonly ServiceListener[]>;
}

/** The listeners for all Services, and the owners of addresses and ports. Does no I/O. */
export class ListenerPlan {
  readonly tracker: ChangeTracker;
  readonly claims: PortalClaims;
  readonly annotationProblems: AnnotationProblems = new AnnotationProblems();
  readonly #admission: PortAdmission;

  constructor({ startedAtMs, limits, held, claims = noClaimMemory() }: PlanContext) {
    this.tracker = new ChangeTracker(startedAtMs, limits);
    this.claims = new PortalClaims(held ?? new Map(), claims.ages);
    this.#admission = claims.admission;
  }

  get desired(): Pick<ListenerPlan, "claims"> {
    return this;
  }

  /** Plans the changed Services. Yields after each slice, service port and Service. */
  *update(options: PlanOptions): Generator<void, UpdatedListeners> {
    this.#admission.refresh();
    const { services, triggers } = this.tracker.take();
    const changed = new Map<ServiceName, readonly ServiceListener[]>();
    for (const { name, service, slices } of services) {
      this.annotationProblems.noteUntuned(name, service);
      const wanted =
        service === undefined
          ? none
          : yield* serviceListenersInSteps(service, slices, options, this.#admission);
      this.claims.replaceService(name, wanted);
      changed.set(name, wanted);
      yield;
    }
    return { pending: { services: services.map(({ name }) => name), triggers }, changed };
  }
}

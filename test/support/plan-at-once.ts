/** Planning in one step. */
import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../../src/api/objects.ts";
import { finish } from "../../src/base/time-slice.ts";
import type { PlanOptions } from "../../src/plan/options.ts";
import { planServiceInSteps, type ServicePlan } from "../../src/plan/planner.ts";
import { noTuningFacts, type TuningFacts } from "../../src/plan/tuning-facts.ts";
import {
  type ServiceListener,
  serviceListenersInSteps,
} from "../../src/userspace/service-listeners.ts";

export function planService(
  name: ServiceName,
  service: ServiceRecord | undefined,
  slices: Iterable<EndpointSliceRecord>,
  options: PlanOptions,
  facts: TuningFacts = noTuningFacts,
): readonly ServicePlan[] {
  return finish(planServiceInSteps({ name, service, slices }, options, facts));
}

export function serviceListeners(
  ...given: Parameters<typeof serviceListenersInSteps>
): readonly ServiceListener[] {
  return finish(serviceListenersInSteps(...given));
}

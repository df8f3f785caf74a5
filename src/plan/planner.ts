import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { finish } from "../base/time-slice.ts";
import { readTuning, type ServiceTuning, sliceWeightProblems } from "../model/annotations.ts";
import {
  countLocalReadyAddresses,
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeInSteps,
} from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import type { PortAdmission } from "./claims/port-admission.ts";
import type { FamilyOptions, PlanOptions } from "./options.ts";
import { planServicePort, type ServicePortPlan } from "./service-port-plan.ts";
import { noTuningFacts, type TuningFacts } from "./tuning-facts.ts";

/** All that one Service wants in one family. */
export interface ServicePlan extends PlannedPorts<ServicePortPlan> {
  readonly service: ServiceName;
  readonly family: IpFamily;
  /** Annotations that do not count; the same in each family. */
  readonly annotationProblems: readonly AnnotationProblem[];
}

/**
 * Plans a Service in every supported family. Pure. `service` absent (deleted, headless) gives plans
 * that want nothing.
 */
export function planService(
  name: ServiceName,
  service: ServiceRecord | undefined,
  slices: Iterable<EndpointSliceRecord>,
  options: PlanOptions,
  facts: TuningFacts = noTuningFacts,
): readonly ServicePlan[] {
  return finish(planServiceInSteps({ name, service, slices }, options, facts));
}

/** A Service as it is planned. */
export interface ServiceToPlan {
  readonly name: ServiceName;
  readonly service: ServiceRecord | undefined;
  readonly slices: Iterable<EndpointSliceRecord>;
}

/** As {@link planService}; yields after each slice and service port. */
export function* planServiceInSteps(
  { name, service, slices }: ServiceToPlan,
  options: PlanOptions,
  facts: TuningFacts,
): Generator<void, readonly ServicePlan[]> {
  const { tuning, problems } = tuningOf(service, options, facts);
  const allSlices = [...slices];
  const ofSlices = sliceWeightProblems(tuning, allSlices);
  const annotationProblems = ofSlices.length === 0 ? problems : [...problems, ...ofSlices];
  const served = servedPart(service, options);
  const { place } = options;
  const plans: ServicePlan[] = [];
  for (const [family, familyOptions] of options.families) {
    const context = { options: familyOptions, place, tuning, facts };
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServicePortPlan =>
      planServicePort(port, endpoints, context);
    const { nodeName } = place;
    const at = { family, nodeName, admit: admitWith(facts.admission, familyOptions) };
    const planned = yield* planPorts(served, allSlices, at, planOne);
    plans.push({ service: name, family, ...planned, annotationProblems });
  }
  return plans;
}

/** For whom service ports are planned. */
export interface PlannedPlace {
  readonly family: IpFamily;
  readonly nodeName: string;
  /** As `PortAdmission.admit`. */
  readonly admit: (port: ServicePort) => ServicePort;
}

/** What the node refuses of a service port; without `admission` nothing. */
export function admitWith(
  admission: Pick<PortAdmission, "admit"> | undefined,
  { nodeAddresses }: Pick<FamilyOptions, "nodeAddresses">,
): PlannedPlace["admit"] {
  return (port) => admission?.admit(port, nodeAddresses) ?? port;
}

/** Plans of the service ports of one family, in any mode. */
export interface PlannedPorts<Plan> {
  readonly servicePorts: readonly Plan[];
  /** Distinct addresses ready on this node: what a health-check node port reports. */
  readonly localReadyCount: number;
}

/** Plans each service port of a family with its endpoints; yields after each slice and service port. */
export function* planPorts<Plan>(
  service: ServiceRecord | undefined,
  slices: readonly EndpointSliceRecord[],
  { family, nodeName, admit }: PlannedPlace,
  planOne: (port: ServicePort, endpoints: readonly Endpoint[]) => Plan,
): Generator<void, PlannedPorts<Plan>> {
  const ports = service === undefined ? none : servicePortsOf(service, family);
  const endpoints: EndpointsByPort =
    ports.length === 0 ? new Map() : yield* mergeInSteps(slices, family, nodeName);
  const servicePorts: Plan[] = [];
  for (const asked of ports) {
    const port = admit(asked);
    const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
    servicePorts.push(planOne(port, endpoints.get(key) ?? none));
    yield;
  }
  return { servicePorts, localReadyCount: countLocalReadyAddresses(endpoints) };
}

/** The Service without what a feature gate takes away. */
export function servedPart(
  service: ServiceRecord | undefined,
  { areExternalIpsIgnored }: PlanOptions,
): ServiceRecord | undefined {
  if (areExternalIpsIgnored !== true || service === undefined) return service;
  return { ...service, externalIps: [] };
}

/** How the virtual servers of a Service are to behave; without one, as by default. Pure. */
export function tuningOf(
  service: ServiceRecord | undefined,
  { scheduler, tuning, extraSchedulers = none }: PlanOptions,
  { missingSchedulers }: Pick<TuningFacts, "missingSchedulers">,
): ServiceTuning {
  const defaults: Tuning = { ...tuning, scheduler };
  if (service === undefined) return { tuning: defaults, problems: none };
  // What the configuration names is allowed, too.
  const extra = [scheduler, ...extraSchedulers];
  return readTuning(service, defaults, { missing: missingSchedulers, extra });
}

import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { readTuning, type ServiceTuning, sliceWeightProblems } from "../model/annotations.ts";
import {
  countLocalReadyAddresses,
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import type { PlanOptions } from "./options.ts";
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
  const { tuning, problems } = tuningOf(service, options, facts);
  const allSlices = [...slices];
  const ofSlices = sliceWeightProblems(tuning, allSlices);
  const annotationProblems = ofSlices.length === 0 ? problems : [...problems, ...ofSlices];
  const served = servedPart(service, options);
  const { place } = options;
  return [...options.families].map(([family, familyOptions]) => {
    const context = { options: familyOptions, place, tuning, facts };
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServicePortPlan =>
      planServicePort(port, endpoints, context);
    return {
      service: name,
      family,
      ...planPorts(served, allSlices, { family, nodeName: place.nodeName }, planOne),
      annotationProblems,
    };
  });
}

/** Plans of the service ports of one family, in any mode. */
export interface PlannedPorts<Plan> {
  readonly servicePorts: readonly Plan[];
  /** Distinct addresses ready on this node: what a health-check node port reports. */
  readonly localReadyCount: number;
}

/** Plans each service port of a family with its endpoints. */
export function planPorts<Plan>(
  service: ServiceRecord | undefined,
  slices: readonly EndpointSliceRecord[],
  { family, nodeName }: { readonly family: IpFamily; readonly nodeName: string },
  planOne: (port: ServicePort, endpoints: readonly Endpoint[]) => Plan,
): PlannedPorts<Plan> {
  const ports = service === undefined ? none : servicePortsOf(service, family);
  const endpoints: EndpointsByPort =
    ports.length === 0 ? new Map() : mergeSlices(slices, family, nodeName);
  return {
    servicePorts: ports.map((port) => {
      const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
      return planOne(port, endpoints.get(key) ?? none);
    }),
    localReadyCount: countLocalReadyAddresses(endpoints),
  };
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
  { scheduler, tuning }: PlanOptions,
  { missingSchedulers }: Pick<TuningFacts, "missingSchedulers">,
): ServiceTuning {
  const defaults: Tuning = { ...tuning, scheduler };
  if (service === undefined) return { tuning: defaults, problems: none };
  return readTuning(service, defaults, missingSchedulers);
}

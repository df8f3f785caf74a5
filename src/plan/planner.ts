import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { readTuning, type ServiceTuning, sliceWeightProblems } from "../model/annotations.ts";
import {
  countLocalReadyAddresses,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import type { PlanOptions } from "./options.ts";
import {
  planServicePort,
  type ServicePortContext,
  type ServicePortPlan,
} from "./service-port-plan.ts";
import { noTuningFacts, type TuningFacts } from "./tuning-facts.ts";

/** All that one Service wants in one family. */
export interface ServicePlan {
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly servicePorts: readonly ServicePortPlan[];
  /** Distinct addresses ready on this node: what a health-check node port reports. */
  readonly localReadyCount: number;
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
  return [...options.families].map(([family, familyOptions]) => {
    const ports = served === undefined ? [] : servicePortsOf(served, family);
    const { nodeName } = options.place;
    const endpoints: EndpointsByPort =
      ports.length === 0 ? new Map() : mergeSlices(allSlices, family, nodeName);
    return {
      service: name,
      family,
      servicePorts: ports.map((port) =>
        planPort(port, endpoints, { options: familyOptions, place: options.place, tuning, facts }),
      ),
      localReadyCount: countLocalReadyAddresses(endpoints),
      annotationProblems,
    };
  });
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

function planPort(
  port: ServicePort,
  endpoints: EndpointsByPort,
  context: ServicePortContext,
): ServicePortPlan {
  const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
  return planServicePort(port, endpoints.get(key) ?? [], context);
}

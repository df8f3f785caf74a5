import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import {
  countLocalReadyAddresses,
  type EndpointsByPort,
  endpointPortKey,
  mergeSlices,
} from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import type { FamilyOptions, PlanOptions } from "./options.ts";
import { planServicePort, type ServicePortPlan } from "./service-port-plan.ts";

/** All that one Service wants in one family. */
export interface ServicePlan {
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly servicePorts: readonly ServicePortPlan[];
  /** Distinct addresses ready on this node: what a health-check node port reports. */
  readonly localReadyCount: number;
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
): readonly ServicePlan[] {
  const allSlices = [...slices];
  const served = servedPart(service, options);
  return [...options.families].map(([family, familyOptions]) => {
    const ports = served === undefined ? [] : servicePortsOf(served, family);
    const { nodeName } = options.place;
    const endpoints: EndpointsByPort =
      ports.length === 0 ? new Map() : mergeSlices(allSlices, family, nodeName);
    return {
      service: name,
      family,
      servicePorts: ports.map((port) => planPort(port, endpoints, familyOptions, options)),
      localReadyCount: countLocalReadyAddresses(endpoints),
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

function planPort(
  port: ServicePort,
  endpoints: EndpointsByPort,
  options: FamilyOptions,
  { place, scheduler }: PlanOptions,
): ServicePortPlan {
  const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
  return planServicePort(port, endpoints.get(key) ?? [], { place, options, scheduler });
}

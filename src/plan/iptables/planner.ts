import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../../api/objects.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type PlannedPorts, planPorts, servedPart } from "../planner.ts";
import type { IptablesOptions } from "./options.ts";
import { planServicePortRules, type ServicePortRules } from "./service-port-rules.ts";

/** All that one Service wants in the tables of one family. */
export interface ServiceRules extends PlannedPorts<ServicePortRules> {
  readonly service: ServiceName;
  readonly family: IpFamily;
}

/** Plans a Service in every family. Pure. `service` absent (deleted, headless) gives plans that want nothing. */
export function planServiceRules(
  name: ServiceName,
  service: ServiceRecord | undefined,
  slices: Iterable<EndpointSliceRecord>,
  options: IptablesOptions,
): readonly ServiceRules[] {
  const { shared } = options;
  const allSlices = [...slices];
  const served = servedPart(service, shared);
  return [...options.families].flatMap(([family, own]) => {
    const familyOptions = shared.families.get(family);
    if (familyOptions === undefined) return [];
    const context = { options, family: familyOptions, own };
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServicePortRules =>
      planServicePortRules(port, endpoints, context);
    const at = { family, nodeName: shared.place.nodeName };
    return [{ service: name, family, ...planPorts(served, allSlices, at, planOne) }];
  });
}

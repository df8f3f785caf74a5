import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../../api/objects.ts";
import type { IpFamily } from "../../base/ip.ts";
import { countLocalReadyAddresses, endpointPortKey, mergeSlices } from "../../model/endpoints.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import { servedPart } from "../planner.ts";
import type { IptablesOptions } from "./options.ts";
import { planServicePortRules, type ServicePortRules } from "./service-port-rules.ts";

/** All that one Service wants in the tables of one family. */
export interface ServiceRules {
  readonly service: ServiceName;
  readonly family: IpFamily;
  readonly servicePorts: readonly ServicePortRules[];
  /** Distinct addresses ready on this node: what a health-check node port reports. */
  readonly localReadyCount: number;
}

/** Plans a Service in every family. Pure. `service` absent (deleted, headless) gives plans that want nothing. */
export function planServiceRules(
  name: ServiceName,
  service: ServiceRecord | undefined,
  slices: Iterable<EndpointSliceRecord>,
  options: IptablesOptions,
): readonly ServiceRules[] {
  const allSlices = [...slices];
  const served = servedPart(service, options.shared);
  return [...options.families].flatMap(([family, own]) => {
    const familyOptions = options.shared.families.get(family);
    if (familyOptions === undefined) return [];
    const ports = served === undefined ? [] : servicePortsOf(served, family);
    const endpoints =
      ports.length === 0
        ? new Map<string, never>()
        : mergeSlices(allSlices, family, options.shared.place.nodeName);
    const context = { options, family: familyOptions, own };
    return [
      {
        service: name,
        family,
        servicePorts: ports.map((port) => {
          const key = endpointPortKey({ name: port.portName, protocol: port.protocol });
          return planServicePortRules(port, endpoints.get(key) ?? [], context);
        }),
        localReadyCount: countLocalReadyAddresses(endpoints),
      },
    ];
  });
}

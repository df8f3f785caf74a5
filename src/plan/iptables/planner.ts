import type { ServiceName } from "../../api/objects.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { ServiceObjects } from "../../model/change-tracker.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { PortAdmission } from "../claims/port-admission.ts";
import { admitWith, type PlannedPorts, planPorts, servedPart } from "../planner.ts";
import type { IptablesOptions } from "./options.ts";
import { planServicePortRules, type ServicePortRules } from "./service-port-rules.ts";

/** The desired rules of one Service in one family's tables. */
export interface ServiceRules extends PlannedPorts<ServicePortRules> {
  readonly service: ServiceName;
  readonly family: IpFamily;
}

/**
 * Plans a Service in every family. Yields after each slice and service port. Pure. If `service` is undefined (deleted
 * or headless), the plans are empty.
 */
export function* planServiceRules(
  { name, service, slices }: ServiceObjects,
  options: IptablesOptions,
  admission?: Pick<PortAdmission, "admit">,
): Generator<void, readonly ServiceRules[]> {
  const { shared } = options;
  const allSlices = [...slices];
  const served = servedPart(service, shared);
  const plans: ServiceRules[] = [];
  for (const [family, own] of options.families) {
    const familyOptions = shared.families.get(family);
    if (familyOptions === undefined) continue;
    const context = { options, family: familyOptions, own };
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServicePortRules =>
      planServicePortRules(port, endpoints, context);
    const { nodeName } = shared.place;
    const at = { family, nodeName, admit: admitWith(admission, familyOptions) };
    plans.push({ service: name, family, ...(yield* planPorts(served, allSlices, at, planOne)) });
  }
  return plans;
}

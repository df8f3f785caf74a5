import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import type { IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import {
  preferenceName,
  readTuning,
  type ServiceTuning,
  weightsName,
} from "../model/annotations.ts";
import type { ServiceObjects } from "../model/change-tracker.ts";
import {
  countLocalReadyAddresses,
  type Endpoint,
  type EndpointsByPort,
  endpointPortKey,
  mergeInSteps,
} from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import { servicePortsOf } from "../model/service-ports.ts";
import { sliceWeightProblems } from "../model/slice-weights.ts";
import type { AnnotationProblem, Tuning } from "../model/tuning.ts";
import type { PortAdmission } from "./claims/port-admission.ts";
import type { FamilyOptions, PlanOptions } from "./options.ts";
import { preferenceProblems } from "./preference.ts";
import {
  planServicePort,
  type ServicePortContext,
  type ServicePortPlan,
} from "./service-port-plan.ts";
import type { TuningFacts } from "./tuning-facts.ts";
import { tunnelProblem } from "./tunnels.ts";
import { type WeightRequest, weightAnswerProblems, weightRequestsOf } from "./weight-requests.ts";
import { ejectionMsOf } from "./weights.ts";

/** The desired state of one Service in one family. */
export interface ServicePlan extends PlannedPorts<ServicePortPlan> {
  readonly service: ServiceName;
  readonly family: IpFamily;
  /** Ignored annotations, which are the same in each family. */
  readonly annotationProblems: readonly AnnotationProblem[];
  /** Requests to this family's endpoints for their weights. */
  readonly weightRequests: readonly WeightRequest[];
  /** Duration of an endpoint's first ejection; 0 if endpoints are not ejected. */
  readonly outlierEjectionMs: number;
}

/**
 * Plans a Service in every supported family. Pure. If `service` is undefined (deleted or headless), the plans are empty.
 * Yields after each slice and service port.
 */
export function* planServiceInSteps(
  { name, service, slices }: ServiceObjects,
  options: PlanOptions,
  facts: TuningFacts,
): Generator<void, readonly ServicePlan[]> {
  const { tuning, problems } = tuningOf(service, options, facts);
  const allSlices = [...slices];
  const served = servedPart(service, options);
  const { place, portRangeMarks: tunnelMarks } = options;
  const ranges = rangesOf(served, tuning, options);
  const tunnels = tuning.isTunneled === true && tunnelMarks !== undefined ? { tunnelMarks } : {};
  const plans: Omit<ServicePlan, "annotationProblems">[] = [];
  for (const [family, familyOptions] of options.families) {
    const context = { options: familyOptions, place, tuning, facts, ...ranges, ...tunnels };
    const planOne = (port: ServicePort, endpoints: readonly Endpoint[]): ServicePortPlan =>
      planServicePort(port, endpoints, context);
    const { nodeName } = place;
    const at = { family, nodeName, admit: admitWith(facts.admission, familyOptions) };
    const planned = yield* planPorts(served, allSlices, at, planOne);
    const weightRequests = weightRequestsOf(planned.servicePorts, allSlices, tuning, familyOptions);
    const outlierEjectionMs = ejectionMsOf(tuning);
    plans.push({ service: name, family, ...planned, weightRequests, outlierEjectionMs });
  }
  const { annotations } = service ?? {};
  const annotationProblems = [
    ...problems,
    ...sliceWeightProblems(tuning, allSlices),
    ...preferenceProblems(tuning, annotations?.[preferenceName], facts),
    ...weightAnswerProblems(tuning, annotations?.[weightsName], plans, facts),
  ];
  return plans.map((plan) => ({ ...plan, annotationProblems }));
}

/** The node and family for which service ports are planned. */
export interface PlannedPlace {
  readonly family: IpFamily;
  readonly nodeName: string;
  /** See `PortAdmission.admit`. */
  readonly admit: (port: ServicePort) => ServicePort;
}

/**
 * Returns a function that adds `unservedAddresses` to a service port: the node addresses at which it must not be
 * served. Without `admission`, no addresses are added.
 */
export function admitWith(
  admission: Pick<PortAdmission, "admit"> | undefined,
  { nodeAddresses }: Pick<FamilyOptions, "nodeAddresses">,
): PlannedPlace["admit"] {
  return (port) => admission?.admit(port, nodeAddresses) ?? port;
}

/** The plans of a Service's ports in one family, in any mode. */
export interface PlannedPorts<Plan> {
  readonly servicePorts: readonly Plan[];
  /** Number of distinct addresses of this node's ready endpoints, as the health check node port reports it. */
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

/** Returns the Service, without its external IPs if the feature gate AllowServiceExternalIPs is off. */
export function servedPart(
  service: ServiceRecord | undefined,
  { areExternalIpsIgnored }: PlanOptions,
): ServiceRecord | undefined {
  if (areExternalIpsIgnored !== true || service === undefined) return service;
  return { ...service, externalIps: [] };
}

/** Returns the tuning of a Service's virtual servers, or the defaults if there is no Service. Pure. */
export function tuningOf(
  service: ServiceRecord | undefined,
  { scheduler, tuning, extraSchedulers = none, ...options }: PlanOptions,
  { missingSchedulers }: Pick<TuningFacts, "missingSchedulers">,
): ServiceTuning {
  const defaults: Tuning = { ...tuning, scheduler };
  if (service === undefined) return { tuning: defaults, problems: none };
  const read = readTuning(service, defaults, {
    missing: missingSchedulers,
    // Schedulers that the configuration names are also allowed.
    extra: [scheduler, ...extraSchedulers],
    hasPortRanges: options.portRangeMarks !== undefined,
    areWeightsRequested: options.areWeightsRequested === true,
  });
  return withoutTunnel(read, tunnelProblem(service, read.tuning, options.tunnels));
}

function withoutTunnel(read: ServiceTuning, problem: AnnotationProblem | undefined): ServiceTuning {
  if (problem === undefined) return read;
  const { isTunneled: _, ...tuning } = read.tuning;
  return { tuning, problems: [...read.problems, problem] };
}

/** The plan of the Service's first port contains its ranges. */
function rangesOf(
  service: ServiceRecord | undefined,
  { portRanges }: Tuning,
  { portRangeMarks: marks }: PlanOptions,
): Pick<ServicePortContext, "ranges" | "rangesPort"> {
  const [first] = service?.ports ?? none;
  if (first === undefined || portRanges === undefined || marks === undefined) return {};
  const protocols = [...new Set(service?.ports.map(({ protocol }) => protocol))].sort();
  return {
    ranges: { ranges: portRanges, protocols, marks },
    rangesPort: endpointPortKey({ name: first.name, protocol: first.protocol }),
  };
}

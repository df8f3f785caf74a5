/** Determines which endpoints this node asks for their weights, and reports missing answers. Pure. */
import type { EndpointSliceRecord } from "../api/objects.ts";
import { hostPort, type IpAddress } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { honorsWeights } from "../base/scheduler.ts";
import { weightsName } from "../model/annotations.ts";
import type { AnnotationProblem, Tuning, WeightPage } from "../model/tuning.ts";
import type { FamilyOptions } from "./options.ts";
import type { ServicePlan } from "./planner.ts";
import type { ServicePortPlan } from "./service-port-plan.ts";
import type { TuningFacts } from "./tuning-facts.ts";

export interface WeightRequest extends WeightPage {
  readonly address: IpAddress;
}

/**
 * The requests for one family of a Service. This node asks only endpoints that it serves, and only at a TCP port that
 * their EndpointSlice contains. It never asks its own addresses or the API servers, because whoever writes
 * EndpointSlices chooses the addresses.
 */
export function weightRequestsOf(
  servicePorts: readonly ServicePortPlan[],
  slices: readonly EndpointSliceRecord[],
  { weights, scheduler }: Tuning,
  { nodeAddresses, apiServers = none }: Pick<FamilyOptions, "nodeAddresses" | "apiServers">,
): readonly WeightRequest[] {
  if (typeof weights !== "object" || !honorsWeights(scheduler)) return none;
  const { port } = weights;
  const served = new Set<IpAddress>();
  for (const { virtualServers } of servicePorts) {
    for (const { realServers } of virtualServers) {
      for (const { address } of realServers) served.add(address);
    }
  }
  const withPort = slices.filter(({ ports }) =>
    ports.some((one) => one.protocol === "TCP" && one.port === port),
  );
  const isAllowed = (address: IpAddress): boolean =>
    served.has(address) &&
    !nodeAddresses.has(address) &&
    !apiServers.includes(hostPort(address, port));
  const listed = withPort.flatMap(({ endpoints }) => endpoints.map(({ address }) => address));
  return [...new Set(listed)].filter(isAllowed).map((address) => ({ address, ...weights }));
}

/** Reports if no endpoint can be asked, and which endpoints have failed to answer several times in a row. */
export function weightAnswerProblems(
  { weights, scheduler }: Tuning,
  value: string | undefined,
  plans: readonly Pick<ServicePlan, "servicePorts" | "weightRequests">[],
  { answerOf }: Pick<TuningFacts, "answerOf">,
): readonly AnnotationProblem[] {
  if (typeof weights !== "object" || !honorsWeights(scheduler)) return none;
  const annotation = { annotation: weightsName, value: value ?? "" };
  const requests = plans.flatMap(({ weightRequests }) => weightRequests);
  if (requests.length === 0) {
    const servers = plans.flatMap((plan) => plan.servicePorts.flatMap((one) => one.virtualServers));
    if (servers.every(({ realServers }) => realServers.length === 0)) return none;
    const message = `no endpoint that this node may ask has the TCP port ${weights.port}`;
    return [{ ...annotation, reason: "annotation-without-effect", message }];
  }
  const failed = requests.flatMap(({ address, port }) => {
    const problem = answerOf(address)?.problem;
    return problem === undefined ? [] : [`${hostPort(address, port)}: ${problem}`];
  });
  if (failed.length === 0) return none;
  const message = `${failed.length} of ${requests.length} endpoints have no valid weight, such as ${failed[0]}`;
  return [{ ...annotation, reason: "invalid-weight-answer", message }];
}

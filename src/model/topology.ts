import type { Endpoint } from "./endpoints.ts";
import type { ServicePort } from "./service-port.ts";
import { isExternallyAccessible } from "./service-ports.ts";

/** The location of this node. */
export interface NodePlace {
  readonly nodeName: string;
  /** Label topology.kubernetes.io/zone. Empty if the Node does not have it. */
  readonly zone: string;
}

/** The kinds of traffic that have a traffic policy. */
export const trafficPolicies = ["internal", "external"] as const;

export type TrafficPolicy = (typeof trafficPolicies)[number];

/** The endpoints that a service port uses. */
export interface ChosenEndpoints {
  /** For traffic with policy Cluster. Empty if only local endpoints are used. */
  readonly cluster: readonly Endpoint[];
  /** For traffic with policy Local. Empty if the service port does not have that policy. */
  readonly local: readonly Endpoint[];
  /** Whether any usable endpoint exists, on this node or elsewhere. */
  readonly hasUsable: boolean;
}

/**
 * Chooses endpoints by readiness, topology hints and traffic policy. Pure.
 *
 * | list | first choice | if the first choice is empty |
 * |---|---|---|
 * | cluster | ready, and hinted for this node or zone if hints apply | serving and terminating, anywhere |
 * | local | ready, on this node | serving and terminating, on this node |
 *
 * Node hints apply if every ready endpoint has them and at least one names this node (KEP-3015, PreferSameNode).
 * Otherwise zone hints apply under the same conditions (KEP-2433).
 */
export function chooseEndpoints(
  endpoints: readonly Endpoint[],
  port: ServicePort,
  place: NodePlace,
): ChosenEndpoints {
  const isExternal = isExternallyAccessible(port);
  const usesCluster = !port.isInternalPolicyLocal || isExternal;
  const usesLocal = port.isInternalPolicyLocal || (port.isExternalPolicyLocal && isExternal);
  const cluster = usesCluster ? clusterEndpoints(endpoints, place) : [];
  const local = usesLocal
    ? readyOrTerminating(endpoints.filter((endpoint) => endpoint.isLocal))
    : [];
  const hasUsable = usesLocal ? endpoints.some(isUsable) : cluster.length > 0;
  return { cluster, local, hasUsable };
}

const nowhereMissing = { internal: false, external: false } as const;

/** For each policy, whether it is Local and all usable endpoints are on other nodes. */
export function noLocalEndpoints(
  port: ServicePort,
  { local, hasUsable }: ChosenEndpoints,
): Readonly<Record<TrafficPolicy, boolean>> {
  if (!hasUsable || local.length > 0) return nowhereMissing;
  const { isInternalPolicyLocal: internal, isExternalPolicyLocal: external } = port;
  return { internal, external };
}

function clusterEndpoints(endpoints: readonly Endpoint[], place: NodePlace): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.isReady);
  if (ready.length === 0) return endpoints.filter(isServingTerminating);
  const isHinted = hintFilter(ready, place);
  return isHinted === undefined ? ready : ready.filter(isHinted);
}

/** The filter for the topology hints that apply. Undefined if hints must be ignored. */
function hintFilter(
  ready: readonly Endpoint[],
  { nodeName, zone }: NodePlace,
): ((endpoint: Endpoint) => boolean) | undefined {
  const isForNode = (endpoint: Endpoint): boolean =>
    endpoint.nodeHints?.includes(nodeName) ?? false;
  if (ready.every((endpoint) => hasHints(endpoint.nodeHints)) && ready.some(isForNode))
    return isForNode;
  if (zone === "") return undefined;
  const isForZone = (endpoint: Endpoint): boolean => endpoint.zoneHints?.includes(zone) ?? false;
  const isComplete = ready.every((endpoint) => hasHints(endpoint.zoneHints));
  return isComplete && ready.some(isForZone) ? isForZone : undefined;
}

function hasHints(hints: readonly string[] | undefined): boolean {
  return hints !== undefined && hints.length > 0;
}

function readyOrTerminating(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.isReady);
  return ready.length > 0 ? ready : endpoints.filter(isServingTerminating);
}

function isServingTerminating(endpoint: Endpoint): boolean {
  return endpoint.isServing && endpoint.isTerminating;
}

function isUsable(endpoint: Endpoint): boolean {
  return endpoint.isReady || isServingTerminating(endpoint);
}

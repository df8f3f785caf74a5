import { familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { PodRecord, SelectingService, SliceEndpoint, SlicePort } from "./objects.ts";
import { bareName } from "./selection.ts";

/** Endpoints with the same ports. A slice has one port list for all of its endpoints. */
export interface EndpointGroup {
  readonly ports: readonly SlicePort[];
  /** Keys are Pod names. */
  readonly endpoints: ReadonlyMap<string, SliceEndpoint>;
}

/** Returns equal texts for equal ports. */
export function portsKey(ports: readonly SlicePort[]): string {
  const keys = ports.map(({ name, protocol, port, appProtocol }) =>
    [name, protocol, port, appProtocol].join("\0"),
  );
  return keys.sort().join("\n");
}

/**
 * A Service's endpoints in one family, grouped by ports. Endpoints have different ports if a named target port has
 * different numbers in their Pods. Without Pods, returns one empty group so that an empty slice exists. Pure.
 */
export function endpointGroups(
  service: SelectingService,
  pods: readonly PodRecord[],
  { family, zoneOf }: { readonly family: IpFamily; readonly zoneOf: ZoneOf },
): ReadonlyMap<string, EndpointGroup> {
  const groups = new Map<string, { ports: readonly SlicePort[]; endpoints: EndpointMap }>();
  for (const pod of pods) {
    const address = pod.addresses.find((candidate) => familyOf(candidate) === family);
    if (address === undefined) continue;
    const ports = portsAt(service, pod);
    const key = portsKey(ports);
    const group = groups.get(key) ?? { ports, endpoints: new Map<string, SliceEndpoint>() };
    group.endpoints.set(pod.name, endpointOf(service, pod, { address, zoneOf }));
    groups.set(key, group);
  }
  if (groups.size === 0) groups.set("", { ports: [], endpoints: new Map() });
  return groups;
}

/** Returns the zone of a node. Undefined if unknown. */
export type ZoneOf = (nodeName: string) => string | undefined;

type EndpointMap = Map<string, SliceEndpoint>;

/** Skips target ports that the Pod does not have. */
function portsAt(service: SelectingService, pod: PodRecord): readonly SlicePort[] {
  return service.ports.flatMap(({ name, protocol, target, appProtocol }) => {
    const port = typeof target === "number" ? target : namedPort(pod, target, protocol);
    return port === undefined ? [] : [{ name, protocol, port, appProtocol }];
  });
}

function namedPort(pod: PodRecord, name: string, protocol: string): number | undefined {
  return pod.namedPorts.find((port) => port.name === name && port.protocol === protocol)?.port;
}

function endpointOf(
  service: SelectingService,
  pod: PodRecord,
  { address, zoneOf }: { readonly address: IpAddress; readonly zoneOf: ZoneOf },
): SliceEndpoint {
  const { isReady, isTerminating } = pod;
  const zone = zoneOf(pod.nodeName);
  const hasHostname = pod.hostname !== "" && pod.subdomain === bareName(service.name);
  const endpoint: SliceEndpoint = {
    pod: pod.name,
    podUid: pod.uid,
    address,
    nodeName: pod.nodeName,
    hostname: hasHostname ? pod.hostname : "",
    // A Pod that is being deleted is not ready, even if its Ready condition is true.
    isReady: service.publishesNotReady || (isReady && !isTerminating),
    isServing: isReady,
    isTerminating,
    ...(zone === undefined ? {} : { zone }),
  };
  return { ...endpoint, ...hintsOf(service, endpoint) };
}

type Hints = Pick<SliceEndpoint, "zoneHints" | "nodeHints">;

/**
 * Topology hints, if the Service requests that traffic stay close: the endpoint's zone, or its node and zone. Only
 * ready endpoints have hints. If the zone is unknown, there is no zone hint. Pure.
 */
function hintsOf(
  { trafficDistribution }: Pick<SelectingService, "trafficDistribution">,
  { isReady, zone, nodeName }: Pick<SliceEndpoint, "isReady" | "zone" | "nodeName">,
): Hints {
  if (trafficDistribution === undefined || !isReady) return {};
  const zoneHints = zone === undefined ? {} : { zoneHints: [zone] };
  if (trafficDistribution === "zone" || nodeName === "") return zoneHints;
  return { ...zoneHints, nodeHints: [nodeName] };
}

/**
 * Limits the kernel objects that Services may request on each node. Anyone who may write Services controls the product
 * of ports, addresses and endpoints. A 37 kB object can request a quarter of a million virtual servers.
 */
import type {
  EndpointSliceRecord,
  ServicePortRecord,
  ServiceRecord,
  SlicePortRecord,
} from "../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { requestedPortRanges } from "./annotations.ts";
import { endpointPortKey } from "./endpoints.ts";

/** The number of kernel objects that a Service requests. It is the same on every node. */
export interface Demand {
  /**
   * Pairs of address and port. A node port counts once per family, no matter how many node addresses serve it. A pair
   * with a load-balancer IP counts once more for every {@link rangesPerFrontend} source ranges of its family, rounded up.
   * Each rule for a port range counts, too: one for each address, protocol, port range and source range.
   */
  readonly frontends: number;
  /** Endpoints of these frontends. An endpoint behind three frontends counts three times. */
  readonly endpoints: number;
}

/**
 * Number of source ranges that count as one frontend. A source range costs one set entry per address and port, far less
 * than a virtual server. With 16, the default limit allows 65,536 source ranges, the capacity of kube-proxy's ipset.
 */
const rangesPerFrontend = 16;

/** Infinity means no limit. */
export interface Limits {
  readonly service: Demand;
  /** Combined limit for all Services in a namespace. */
  readonly namespace: Demand;
}

export const noLimits: Limits = {
  service: { frontends: Number.POSITIVE_INFINITY, endpoints: Number.POSITIVE_INFINITY },
  namespace: { frontends: Number.POSITIVE_INFINITY, endpoints: Number.POSITIVE_INFINITY },
};

/** The part of a Service that is served within its share. */
export interface AdmittedService {
  readonly service: ServiceRecord;
  readonly slices: readonly EndpointSliceRecord[];
}

/** Returns everything that a Service requests. Pure. */
export function demandOf(service: ServiceRecord, slices: readonly EndpointSliceRecord[]): Demand {
  const nodePorts = service.ports.filter(({ nodePort }) => nodePort !== 0).length;
  const counts = addressCounts(service);
  const rules = portRangeRules(service);
  let frontends = 0;
  for (const count of Object.values(counts)) {
    if (count > 0) frontends += count * (service.ports.length + rules) + nodePorts;
  }
  const sourceCostOf = sourceCosts(service);
  for (const address of service.loadBalancerIps) {
    if (counts[familyOf(address)] > 0) frontends += sourceCostOf(address, service.ports.length);
  }
  const portOf = portFinder(service);
  let endpoints = 0;
  for (const slice of slices)
    endpoints += slice.endpoints.length * costOfEndpoint(slice, portOf, counts);
  return { frontends, endpoints };
}

export function isWithin(demand: Demand, share: Demand): boolean {
  return demand.frontends <= share.frontends && demand.endpoints <= share.endpoints;
}

/** Returns the smaller number of frontends and the smaller number of endpoints. */
export function lesser(one: Demand, other: Demand): Demand {
  return {
    frontends: Math.min(one.frontends, other.frontends),
    endpoints: Math.min(one.endpoints, other.endpoints),
  };
}

/**
 * The part of a Service that fits into its share, the same on every node. Frontends are admitted in this order: ports
 * with their cluster IPs and node ports in the Service's order, then load-balancer IPs, then external IPs. Each
 * load-balancer or external IP is admitted for all ports or not at all. Endpoints are admitted in the order of their
 * slices' names. Pure.
 */
export function admit({ service, slices }: AdmittedService, share: Demand): AdmittedService {
  const admitted = admitFrontends(service, share.frontends);
  return { service: admitted, slices: admitEndpoints(admitted, slices, share.endpoints) };
}

function admitFrontends(service: ServiceRecord, most: number): ServiceRecord {
  const families = service.clusterIps.map(familyOf);
  const rules = portRangeRules(service);
  let left = most - families.length * rules;
  const ports = service.ports.filter(({ nodePort }) => {
    left -= families.length * (nodePort === 0 ? 1 : 2);
    return left >= 0;
  });
  if (ports.length < service.ports.length) left = 0;
  const fitting = (
    addresses: readonly IpAddress[],
    sourceCostOf: SourceCost,
  ): readonly IpAddress[] =>
    addresses.filter((address) => {
      // Without a cluster IP of the same family, the address has no frontends.
      if (!families.includes(familyOf(address))) return true;
      left -= ports.length + rules + sourceCostOf(address, ports.length);
      return ports.length > 0 && left >= 0;
    });
  const loadBalancerIps = fitting(service.loadBalancerIps, sourceCosts(service));
  return {
    ...service,
    ports,
    loadBalancerIps,
    externalIps: fitting(service.externalIps, () => 0),
  };
}

type SourceCost = (address: IpAddress, portCount: number) => number;

/** Returns a function that converts the source ranges of an address's family to a number of frontends. */
function sourceCosts(service: ServiceRecord): SourceCost {
  const counts = { IPv4: 0, IPv6: 0 };
  for (const { address } of service.sourceRanges) counts[familyOf(address)] += 1;
  const rules = portRangeRules(service);
  return (address, portCount) => {
    const count = counts[familyOf(address)];
    return Math.ceil(count / rangesPerFrontend) * portCount + count * rules;
  };
}

/** Number of rules for port ranges at each address without source ranges. */
function portRangeRules({ annotations, ports }: ServiceRecord): number {
  const { length } = annotations === undefined ? none : requestedPortRanges(annotations);
  return length === 0 ? 0 : length * new Set(ports.map(({ protocol }) => protocol)).size;
}

function admitEndpoints(
  service: ServiceRecord,
  slices: readonly EndpointSliceRecord[],
  most: number,
): readonly EndpointSliceRecord[] {
  const counts = addressCounts(service);
  const portOf = portFinder(service);
  let left = most;
  return slices.toSorted(byName).map((slice) => {
    const cost = costOfEndpoint(slice, portOf, counts);
    const count = cost === 0 ? 0 : Math.min(slice.endpoints.length, Math.floor(left / cost));
    left -= count * cost;
    if (count === slice.endpoints.length) return slice;
    return { ...slice, endpoints: count === 0 ? none : slice.endpoints.slice(0, count) };
  });
}

/** Number of addresses per family at which every port is served. 0 if there is no cluster IP of that family. */
function addressCounts({
  clusterIps,
  externalIps,
  loadBalancerIps,
}: ServiceRecord): Readonly<Record<IpFamily, number>> {
  const counts = { IPv4: 0, IPv6: 0 };
  for (const address of clusterIps) counts[familyOf(address)] = 1;
  for (const addresses of [externalIps, loadBalancerIps]) {
    for (const address of addresses) {
      const family = familyOf(address);
      if (counts[family] > 0) counts[family] += 1;
    }
  }
  return counts;
}

type PortFinder = (id: SlicePortRecord) => ServicePortRecord | undefined;

/** Up to this many ports, a linear search is cheaper than an index. */
const fewPorts = 8;

function portFinder({ ports }: ServiceRecord): PortFinder {
  if (ports.length <= fewPorts)
    return ({ name, protocol }) =>
      ports.find((port) => port.name === name && port.protocol === protocol);
  const byKey = new Map(ports.map((port) => [endpointPortKey(port), port]));
  return (id) => byKey.get(endpointPortKey(id));
}

/** Number of frontends that each endpoint of the slice serves. */
function costOfEndpoint(
  { family, ports }: EndpointSliceRecord,
  portOf: PortFinder,
  counts: Readonly<Record<IpFamily, number>>,
): number {
  const addresses = counts[family];
  if (addresses === 0) return 0;
  let cost = 0;
  for (const id of ports) {
    const port = portOf(id);
    if (port !== undefined) cost += addresses + (port.nodePort === 0 ? 0 : 1);
  }
  return cost;
}

function byName(one: EndpointSliceRecord, other: EndpointSliceRecord): number {
  return one.name < other.name ? -1 : 1;
}

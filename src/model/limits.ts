/**
 * What one Service may have on each node. Whoever may write Services chooses the product of ports and addresses, and of
 * these and endpoints: an object of 37 kB can ask for a quarter of a million virtual servers.
 */
import type {
  EndpointSliceRecord,
  ServicePortRecord,
  ServiceRecord,
  SlicePortRecord,
} from "../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { endpointPortKey } from "./endpoints.ts";

/** An amount of what the kernel is asked for, the same on every node. */
export interface Demand {
  /** Addresses with a port; a node port counts once per family, at however many addresses of the node it is. */
  readonly frontends: number;
  /** Endpoints behind them: one that stands behind three frontends counts three times. */
  readonly endpoints: number;
}

/** Infinity: no limit. */
export interface Limits {
  readonly service: Demand;
  /** Of all Services of a namespace together. */
  readonly namespace: Demand;
}

export const noLimits: Limits = {
  service: { frontends: Number.POSITIVE_INFINITY, endpoints: Number.POSITIVE_INFINITY },
  namespace: { frontends: Number.POSITIVE_INFINITY, endpoints: Number.POSITIVE_INFINITY },
};

/** What of a Service is served within its share. */
export interface AdmittedService {
  readonly service: ServiceRecord;
  readonly slices: readonly EndpointSliceRecord[];
}

/** All that a Service asks for. Pure. */
export function demandOf(service: ServiceRecord, slices: readonly EndpointSliceRecord[]): Demand {
  const nodePorts = service.ports.filter(({ nodePort }) => nodePort !== 0).length;
  const counts = addressCounts(service);
  let frontends = 0;
  for (const count of Object.values(counts)) {
    if (count > 0) frontends += count * service.ports.length + nodePorts;
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

/** The lesser of both, each amount by itself. */
export function lesser(one: Demand, other: Demand): Demand {
  return {
    frontends: Math.min(one.frontends, other.frontends),
    endpoints: Math.min(one.endpoints, other.endpoints),
  };
}

/**
 * The part of a Service that fits into its share, the same on every node. Frontends are taken in this order: ports with
 * their cluster IPs and node ports as the Service lists them, then load-balancer IPs, then external IPs, each for all ports or
 * not at all. Endpoints are taken in the order of their slices' names. Pure.
 */
export function admit({ service, slices }: AdmittedService, share: Demand): AdmittedService {
  const admitted = admitFrontends(service, share.frontends);
  return { service: admitted, slices: admitEndpoints(admitted, slices, share.endpoints) };
}

function admitFrontends(service: ServiceRecord, most: number): ServiceRecord {
  let left = most;
  const families = service.clusterIps.map(familyOf);
  const ports = service.ports.filter(({ nodePort }) => {
    left -= families.length * (nodePort === 0 ? 1 : 2);
    return left >= 0;
  });
  if (ports.length < service.ports.length) left = 0;
  const fitting = (addresses: readonly IpAddress[]): readonly IpAddress[] =>
    addresses.filter((address) => {
      // Without a cluster IP of its family an address asks for nothing.
      if (!families.includes(familyOf(address))) return true;
      left -= ports.length;
      return ports.length > 0 && left >= 0;
    });
  const loadBalancerIps = fitting(service.loadBalancerIps);
  return { ...service, ports, loadBalancerIps, externalIps: fitting(service.externalIps) };
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

/** Addresses of each family by which every port is reached; 0 without a cluster IP. */
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

/** Of so many ports a search is cheaper than an index. */
const fewPorts = 8;

function portFinder({ ports }: ServiceRecord): PortFinder {
  if (ports.length <= fewPorts)
    return ({ name, protocol }) =>
      ports.find((port) => port.name === name && port.protocol === protocol);
  const byKey = new Map(ports.map((port) => [endpointPortKey(port), port]));
  return (id) => byKey.get(endpointPortKey(id));
}

/** Frontends before an endpoint of the slice. */
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

import type { EndpointRecord, EndpointSliceRecord, SlicePortRecord } from "../api/objects.ts";
import { type HostPort, hostPort, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import { sortInSteps } from "../base/sort-in-steps.ts";
import { finish } from "../base/time-slice.ts";
import { parseWeight } from "../base/weight.ts";

/** One endpoint of a service port: one of a slice's endpoints with one of its port numbers. */
export interface Endpoint extends EndpointRecord {
  readonly port: number;
  /** `address:port`, IPv6 in brackets. Identifies the endpoint and defines the sort order. */
  readonly key: HostPort;
  /** Whether the endpoint runs on this node. */
  readonly isLocal: boolean;
  /** Name of its EndpointSlice, without the namespace. */
  readonly slice: string;
  /** Weight from the EndpointSlice's annotation. Undefined if there is no valid annotation. */
  readonly sliceWeight?: number;
}

/** A port name and protocol, by which slice ports match service ports. Their port numbers may differ. */
export type EndpointPortKey = string & { readonly __brand: "EndpointPortKey" };

export type EndpointsByPort = ReadonlyMap<EndpointPortKey, readonly Endpoint[]>;

export function endpointPortKey(port: {
  readonly name: string;
  readonly protocol: Protocol;
}): EndpointPortKey {
  return `${port.name}/${port.protocol}` as EndpointPortKey;
}

/**
 * Merges the slices of one Service and family. Pure. If several endpoints have the same `address:port`, the last one
 * wins, except that a terminating endpoint never replaces another one. kube-proxy has done the same since 1.36, because
 * pod addresses are reused while the old pod is still terminating. Slices are merged in name order, so the result does
 * not depend on event order. Endpoints are sorted by key.
 */
export function mergeSlices(
  slices: Iterable<EndpointSliceRecord>,
  family: IpFamily,
  nodeName: string,
): EndpointsByPort {
  return finish(mergeInSteps(slices, family, nodeName));
}

/** Like {@link mergeSlices}, but yields after each slice and while sorting. */
export function* mergeInSteps(
  slices: Iterable<EndpointSliceRecord>,
  family: IpFamily,
  nodeName: string,
): Generator<void, EndpointsByPort> {
  const merged = new Map<EndpointPortKey, Map<HostPort, Endpoint>>();
  for (const slice of [...slices].sort(byName)) {
    if (slice.family !== family) continue;
    for (const port of slice.ports) addSlicePort(merged, slice, port, nodeName);
    yield;
  }
  const result = new Map<EndpointPortKey, readonly Endpoint[]>();
  for (const [key, endpoints] of merged) {
    if (endpoints.size > 0) result.set(key, yield* sorted(endpoints));
  }
  return result;
}

function addSlicePort(
  merged: Map<EndpointPortKey, Map<HostPort, Endpoint>>,
  slice: EndpointSliceRecord,
  port: SlicePortRecord,
  nodeName: string,
): void {
  const portKey = endpointPortKey(port);
  const endpoints = merged.get(portKey) ?? new Map<HostPort, Endpoint>();
  merged.set(portKey, endpoints);
  const name = slice.name.slice(slice.name.indexOf("/") + 1);
  const sliceWeight = slice.weightText === undefined ? undefined : parseWeight(slice.weightText);
  for (const record of slice.endpoints) {
    const key = hostPort(record.address, port.port);
    if (endpoints.has(key) && record.isTerminating) continue;
    const { zone, zoneHints, nodeHints } = record;
    // Builds the object without intermediate copies, because a large cluster has many endpoints.
    const endpoint: { -readonly [Name in keyof Endpoint]: Endpoint[Name] } = {
      address: record.address,
      port: port.port,
      key,
      isLocal: nodeName !== "" && record.nodeName === nodeName,
      nodeName: record.nodeName,
      slice: name,
      isReady: record.isReady,
      isServing: record.isServing,
      isTerminating: record.isTerminating,
    };
    if (zone !== undefined) endpoint.zone = zone;
    if (zoneHints !== undefined) endpoint.zoneHints = zoneHints;
    if (nodeHints !== undefined) endpoint.nodeHints = nodeHints;
    if (sliceWeight !== undefined) endpoint.sliceWeight = sliceWeight;
    endpoints.set(key, endpoint);
  }
}

/**
 * Number of distinct addresses of this node's ready endpoints, across all ports. Health checks report it as the weight.
 */
export function countLocalReadyAddresses(endpoints: EndpointsByPort): number {
  const addresses = new Set<IpAddress>();
  for (const list of endpoints.values()) {
    for (const endpoint of list) {
      if (endpoint.isLocal && endpoint.isReady) addresses.add(endpoint.address);
    }
  }
  return addresses.size;
}

function byName(left: EndpointSliceRecord, right: EndpointSliceRecord): number {
  return left.name < right.name ? -1 : 1;
}

/** Largest number of endpoints to sort in one step. Sorting more takes several milliseconds. */
const mostAtOnce = 1_000;

function* sorted(endpoints: ReadonlyMap<HostPort, Endpoint>): Generator<void, readonly Endpoint[]> {
  if (endpoints.size <= mostAtOnce) return [...endpoints.values()].sort(byKey);
  const keys = yield* sortInSteps(endpoints.keys());
  return keys.map((key) => endpoints.get(key) as Endpoint);
}

/** Compares keys as text, like kube-proxy: 10.0.0.10:80 sorts before 10.0.0.9:80. Keys are unique. */
function byKey(left: Endpoint, right: Endpoint): number {
  return left.key < right.key ? -1 : 1;
}

import type { NewSlice, SliceContent, SliceEndpoint, SlicePort } from "./objects.ts";
import type { SliceUpdate } from "./plan-slices.ts";
import { bareName, namespaceOf } from "./selection.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Renders a new slice as an object of discovery.k8s.io/v1. Pure. */
export function sliceObject(slice: NewSlice): Fields {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: bareName(slice.name),
      namespace: namespaceOf(slice.name),
      labels: slice.labels,
      ownerReferences: ownerReferences(bareName(slice.service), slice.ownerUid),
    },
    addressType: slice.family,
    ...contentFields(slice),
  };
}

/**
 * Renders a merge patch for a stored slice. The patch keeps fields that other software added. The API server rejects
 * the patch if the slice has changed since it was read. Pure.
 */
export function slicePatch({ stored, content }: SliceUpdate): Fields {
  const dropped = Object.keys(stored.labels).filter((name) => !Object.hasOwn(content.labels, name));
  return {
    metadata: {
      resourceVersion: stored.resourceVersion,
      labels: { ...content.labels, ...Object.fromEntries(dropped.map((name) => [name, null])) },
      ownerReferences: ownerReferences(bareName(stored.service), content.ownerUid),
    },
    ...contentFields(content),
  };
}

function contentFields({ ports, endpoints }: SliceContent): Fields {
  return { ports: ports.map(portFields), endpoints: endpoints.map(endpointFields) };
}

function ownerReferences(name: string, uid: string): readonly Fields[] {
  const owner = { apiVersion: "v1", kind: "Service", name, uid };
  return [{ ...owner, controller: true, blockOwnerDeletion: true }];
}

function portFields({ name, protocol, port, appProtocol }: SlicePort): Fields {
  return { name, protocol, port, ...(appProtocol === "" ? {} : { appProtocol }) };
}

function endpointFields(endpoint: SliceEndpoint): Fields {
  const { pod, podUid, address, nodeName, hostname, zone } = endpoint;
  const target = { kind: "Pod", namespace: namespaceOf(pod), name: bareName(pod) };
  return {
    addresses: [address],
    conditions: {
      ready: endpoint.isReady,
      serving: endpoint.isServing,
      terminating: endpoint.isTerminating,
    },
    ...(hostname === "" ? {} : { hostname }),
    ...(nodeName === "" ? {} : { nodeName }),
    ...(zone === undefined ? {} : { zone }),
    ...hintFields(endpoint),
    targetRef: { ...target, ...(podUid === "" ? {} : { uid: podUid }) },
  };
}

function hintFields({ zoneHints, nodeHints }: SliceEndpoint): Fields {
  if (zoneHints === undefined && nodeHints === undefined) return {};
  const named = (names: readonly string[]): readonly Fields[] => names.map((name) => ({ name }));
  return {
    hints: {
      ...(zoneHints === undefined ? {} : { forZones: named(zoneHints) }),
      ...(nodeHints === undefined ? {} : { forNodes: named(nodeHints) }),
    },
  };
}

/** Clusters of many similar Services with objects as large as those of a real API server. */
import { clusterIpOf, nameOf, positions } from "../support/many-services.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";

export interface ClusterSize {
  readonly services: number;
  readonly endpoints: number;
}

/** The EndpointSlice controller's default. */
const endpointsPerSlice = 100;
/**
 * Each Service has its own range of this many endpoint numbers. There is room for 131,072 Services.
 */
const numbersPerService = 64;

/** Address of a Service's n-th endpoint, starting at 10.128.0.0. */
export function endpointAddress(service: number, position: number): string {
  const number = service * numbersPerService + position;
  return `10.${128 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
}

/** `5,000 × 5`. */
export function sizeText({ services, endpoints }: ClusterSize): string {
  return `${services.toLocaleString("en")} × ${endpoints}`;
}

export function serviceOf(index: number): ApiObject {
  return service({
    name: nameOf(index),
    clusterIps: [clusterIpOf(index)],
    labels: { "app.kubernetes.io/name": nameOf(index), "app.kubernetes.io/managed-by": "Helm" },
    metadata: { ...managedBy("helm", serviceFields) },
    spec: { selector: { "app.kubernetes.io/name": nameOf(index) } },
  });
}

/** The slices of a Service for these endpoints. Endpoints from number `localFrom` run on the measured node. */
export function slicesOf(
  index: number,
  given: readonly number[],
  localFrom: number = Infinity,
): readonly ApiObject[] {
  const count = Math.max(1, Math.ceil(given.length / endpointsPerSlice));
  return positions(count).map((part) => {
    const own = given.slice(part * endpointsPerSlice, (part + 1) * endpointsPerSlice);
    return sliceOf({ index, part, given: own, localFrom });
  });
}

function sliceOf({
  index,
  part,
  given,
  localFrom,
}: {
  readonly index: number;
  readonly part: number;
  readonly given: readonly number[];
  readonly localFrom: number;
}): ApiObject {
  return endpointSlice({
    name: `${nameOf(index)}-${part}`,
    service: nameOf(index),
    labels: { "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" },
    endpoints: given.map((position) =>
      endpoint(endpointAddress(index, position), {
        nodeName: position < localFrom ? "node-2" : "node-1",
        zone: "z1",
        targetRef: podReference(index, position),
      }),
    ),
    metadata: {
      generateName: `${nameOf(index)}-`,
      ...managedBy("kube-controller-manager", sliceFields),
    },
  });
}

function podReference(index: number, position: number): object {
  const number = index * numbersPerService + position;
  return {
    kind: "Pod",
    namespace: "default",
    name: `${nameOf(index)}-7d4b9c6f58-${position}`,
    uid: `3f2b8a1e-5c7d-4e9f-8a6b-${number.toString(16).padStart(12, "0")}`,
  };
}

const serviceFields = {
  "f:metadata": {
    "f:labels": { ".": {}, "f:app.kubernetes.io/managed-by": {}, "f:app.kubernetes.io/name": {} },
  },
  "f:spec": {
    "f:internalTrafficPolicy": {},
    "f:ports": {
      ".": {},
      'k:{"port":80,"protocol":"TCP"}': {
        ".": {},
        "f:name": {},
        "f:port": {},
        "f:protocol": {},
        "f:targetPort": {},
      },
    },
    "f:selector": {},
    "f:sessionAffinity": {},
    "f:type": {},
  },
};

const sliceFields = {
  "f:addressType": {},
  "f:endpoints": {},
  "f:metadata": {
    "f:generateName": {},
    "f:labels": {
      ".": {},
      "f:endpointslice.kubernetes.io/managed-by": {},
      "f:kubernetes.io/service-name": {},
    },
    "f:ownerReferences": { ".": {}, 'k:{"uid":"0b2f6d4e-91c3-4a7e-b5d8-2f60a9e3c714"}': {} },
  },
  "f:ports": {},
};

function managedBy(manager: string, fields: object): object {
  const time = "2026-01-01T00:00:00Z";
  return {
    managedFields: [
      {
        manager,
        operation: "Update",
        apiVersion: "v1",
        time,
        fieldsType: "FieldsV1",
        fieldsV1: fields,
      },
    ],
  };
}

/** The Node, and Services starting with number `from`, each with the same number of endpoints. */
export function clusterOf(size: ClusterSize, from = 0): readonly ApiObject[] {
  const endpoints = positions(size.endpoints);
  const services = positions(size.services).flatMap((offset) => [
    serviceOf(from + offset),
    ...slicesOf(from + offset, endpoints),
  ]);
  return [node(), ...services];
}

/**
 * Like {@link clusterOf}, with one more Service, which has an endpoint on the node. Without it, adding the node's first
 * endpoint would add rules, and removing the last one would remove them.
 */
export function clusterAroundNode(size: ClusterSize): readonly ApiObject[] {
  return [...clusterOf(size), serviceOf(size.services), ...slicesOf(size.services, [0], 0)];
}

/** Number of lines in /proc/net/ip_vs, without the header, when everything exists. */
export function tableLines({ services, endpoints }: ClusterSize): number {
  return services * (1 + endpoints);
}

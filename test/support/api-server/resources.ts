import type { ApiObject } from "../objects.ts";

/** A resource that the test server serves for all namespaces. */
export interface Resource {
  readonly path: string;
  readonly kind: string;
  readonly apiVersion: string;
}

export const resources: readonly Resource[] = [
  { path: "/api/v1/services", kind: "Service", apiVersion: "v1" },
  { path: "/api/v1/pods", kind: "Pod", apiVersion: "v1" },
  { path: "/api/v1/namespaces", kind: "Namespace", apiVersion: "v1" },
  { path: "/api/v1/nodes", kind: "Node", apiVersion: "v1" },
  {
    path: "/apis/discovery.k8s.io/v1/endpointslices",
    kind: "EndpointSlice",
    apiVersion: "discovery.k8s.io/v1",
  },
];

/** Returns the resource of an object's kind. */
export function resourceOf(object: ApiObject): Resource {
  const resource = resources.find(({ kind }) => kind === object.kind);
  if (resource === undefined) throw new Error(`The test API server has no ${object.kind}`);
  return resource;
}

/** Returns an object's key within its resource: `namespace/name`, or `name`. */
export function objectKey({ metadata }: Pick<ApiObject, "metadata">): string {
  const { namespace, name } = metadata;
  return namespace === undefined ? String(name) : `${String(namespace)}/${String(name)}`;
}

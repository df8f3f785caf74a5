/** A resource's paths: in the stored version, and in a version that older clients use. */
import type { ApiObject } from "../objects.ts";
import { type Resource, resources } from "./resources.ts";

type Fields = Readonly<Record<string, unknown>>;

export interface ServedResource {
  readonly path: string;
  readonly resource: Resource;
  readonly apiVersion: string;
  /** Converts an object from the stored to the served version. Pure. */
  readonly convert: (object: ApiObject) => ApiObject;
}

const stored = resources.map((resource) => ({
  path: resource.path,
  resource,
  apiVersion: resource.apiVersion,
  convert: (object: ApiObject) => object,
}));

const slicesV1Beta1 = "discovery.k8s.io/v1beta1";

/** API servers served this version until 1.24, and kube-proxy before 1.21 uses only this version. */
const older = stored
  .filter(({ resource }) => resource.kind === "EndpointSlice")
  .map(({ resource }) => ({
    path: `/apis/${slicesV1Beta1}/endpointslices`,
    resource,
    apiVersion: slicesV1Beta1,
    convert: sliceV1Beta1,
  }));

const served: readonly ServedResource[] = [...stored, ...older];

export function servedAt(path: string): ServedResource | undefined {
  return served.find((one) => one.path === path);
}

/** In this version, node and zone are labels in an endpoint's `topology` (pkg/apis/discovery/v1beta1/conversion.go). */
function sliceV1Beta1(slice: ApiObject): ApiObject {
  const endpoints = slice["endpoints"];
  return {
    ...slice,
    apiVersion: slicesV1Beta1,
    ...(Array.isArray(endpoints) ? { endpoints: endpoints.map(endpointV1Beta1) } : {}),
  };
}

function endpointV1Beta1({ zone, ...endpoint }: Fields): Fields {
  const topology = {
    ...(endpoint["nodeName"] === undefined
      ? {}
      : { "kubernetes.io/hostname": endpoint["nodeName"] }),
    ...(zone === undefined ? {} : { "topology.kubernetes.io/zone": zone }),
  };
  return { ...endpoint, topology };
}

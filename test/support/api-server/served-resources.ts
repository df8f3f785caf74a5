/** Under which paths a resource is served: in the version that is stored, and in one that older clients ask for. */
import type { ApiObject } from "../objects.ts";
import { type Resource, resources } from "./resources.ts";

type Fields = Readonly<Record<string, unknown>>;

export interface ServedResource {
  readonly path: string;
  readonly resource: Resource;
  readonly apiVersion: string;
  /** From the stored version to the served one. Pure. */
  readonly convert: (object: ApiObject) => ApiObject;
}

const stored = resources.map((resource) => ({
  path: resource.path,
  resource,
  apiVersion: resource.apiVersion,
  convert: (object: ApiObject) => object,
}));

const slicesV1Beta1 = "discovery.k8s.io/v1beta1";

/** API servers served it until 1.24; kube-proxy before 1.21 asks for nothing else. */
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

/** Node and zone of an endpoint are labels of its `topology` there (pkg/apis/discovery/v1beta1/conversion.go). */
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

import type { WatchedResource } from "../api/cluster/watched-resources.ts";

/** The ClusterRole of deploy/kustomize/endpoint-controller. */
export const controllerRole = "kube-ipvs-endpoint-controller";

const slicesPath = "/apis/discovery.k8s.io/v1/endpointslices";
export const slicesName = "endpointslices.discovery.k8s.io";

/** What endpoints are made from, in all namespaces. */
export const controllerResources: {
  readonly [Kind in "services" | "pods" | "nodes" | "endpointslices"]: WatchedResource<Kind>;
} = {
  services: {
    kind: "services",
    path: "/api/v1/services",
    name: "services",
    role: controllerRole,
    selectors: {},
  },
  pods: {
    kind: "pods",
    path: "/api/v1/pods",
    name: "pods",
    role: controllerRole,
    // Those that ended have no endpoints, and there may be many.
    selectors: { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" },
  },
  // Their zones.
  nodes: {
    kind: "nodes",
    path: "/api/v1/nodes",
    name: "nodes",
    role: controllerRole,
    selectors: {},
  },
  endpointslices: {
    kind: "endpointslices",
    path: slicesPath,
    name: slicesName,
    role: controllerRole,
    selectors: {},
  },
};

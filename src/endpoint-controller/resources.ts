import { collections, type WatchedResource } from "../api/cluster/watched-resources.ts";

/** The ClusterRole of deploy/kustomize/endpoint-controller. */
export const controllerRole = "kube-ipvs-endpoint-controller";

/** What endpoints are made from, in all namespaces. */
export const controllerResources: {
  readonly [Kind in keyof typeof collections]: WatchedResource<Kind>;
} = {
  services: { ...collections.services, role: controllerRole, selectors: {} },
  pods: {
    ...collections.pods,
    role: controllerRole,
    // Those that ended have no endpoints, and there may be many.
    selectors: { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" },
  },
  // Their zones.
  nodes: { ...collections.nodes, role: controllerRole, selectors: {} },
  endpointslices: { ...collections.endpointslices, role: controllerRole, selectors: {} },
};

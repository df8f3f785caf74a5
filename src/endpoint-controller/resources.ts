import { collections, type WatchedResource } from "../api/cluster/watched-resources.ts";

/** Name of the ClusterRole in deploy/kustomize/endpoint-controller. */
export const controllerRole = "kube-ipvs-endpoint-controller";

/** The objects that determine endpoints, in all namespaces. */
export const controllerResources: {
  readonly [Kind in keyof typeof collections]: WatchedResource<Kind>;
} = {
  services: { ...collections.services, role: controllerRole, selectors: {} },
  pods: {
    ...collections.pods,
    role: controllerRole,
    // Terminated Pods have no endpoints, and there may be many of them.
    selectors: { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" },
  },
  // Nodes provide the zones.
  nodes: { ...collections.nodes, role: controllerRole, selectors: {} },
  endpointslices: { ...collections.endpointslices, role: controllerRole, selectors: {} },
};

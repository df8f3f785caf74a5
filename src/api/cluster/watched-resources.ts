import { headlessLabel } from "../../endpoint-slices/objects.ts";
import { proxyNameLabel } from "../decode/service.ts";
import type { ResourceKind } from "../source.ts";

/** A resource of the API server, and the selectors that filter it. */
export interface WatchedResource<Kind extends string = string> {
  readonly kind: Kind;
  readonly path: string;
  /** Name in RBAC rules and messages, such as `endpointslices.discovery.k8s.io`. */
  readonly name: string;
  /** A role that allows the requests, for messages. Defaults to system:node-proxier. */
  readonly role?: string;
  /** labelSelector and fieldSelector. */
  readonly selectors: Readonly<Record<string, string>>;
  /** Selectors that are dropped if the API server does not know them. Decoding then skips the same objects. */
  readonly optionalSelectors?: Readonly<Record<string, string>>;
  /** Proxy name of the requested Services. If absent, Services without a proxy name are requested. */
  readonly serviceProxyName?: string | undefined;
}

/** The paths of each kind in all namespaces. */
export const collections = {
  services: { kind: "services", path: "/api/v1/services", name: "services" },
  endpointslices: {
    kind: "endpointslices",
    path: "/apis/discovery.k8s.io/v1/endpointslices",
    name: "endpointslices.discovery.k8s.io",
  },
  nodes: { kind: "nodes", path: "/api/v1/nodes", name: "nodes" },
  pods: { kind: "pods", path: "/api/v1/pods", name: "pods" },
} as const;

/** The watched resources for the node `nodeName`, in all namespaces. */
export function watchedResources(
  nodeName: string,
  serviceProxyName?: string,
): {
  readonly [Kind in ResourceKind]: WatchedResource<Kind>;
} {
  const ourServices =
    serviceProxyName === undefined ? `!${proxyNameLabel}` : `${proxyNameLabel}=${serviceProxyName}`;
  return {
    services: {
      ...collections.services,
      selectors: { labelSelector: ourServices },
      // Supported since Kubernetes 1.31 (kubernetes/kubernetes#123905).
      optionalSelectors: { fieldSelector: "spec.clusterIP!=None" },
      serviceProxyName,
    },
    endpointslices: {
      ...collections.endpointslices,
      selectors: { labelSelector: `!${headlessLabel}` },
    },
    nodes: {
      ...collections.nodes,
      selectors: { fieldSelector: `metadata.name=${nodeName}` },
    },
  };
}

import { headlessLabel } from "../../endpoint-slices/objects.ts";
import { proxyNameLabel } from "../decode/service.ts";
import type { ResourceKind } from "../source.ts";

/** A resource as the API server knows it, with what the server shall filter out. */
export interface WatchedResource<Kind extends string = string> {
  readonly kind: Kind;
  readonly path: string;
  /** `endpointslices.discovery.k8s.io`: as RBAC rules and messages name it. */
  readonly name: string;
  /** A role that allows what is asked for, for messages; absent: system:node-proxier. */
  readonly role?: string;
  /** labelSelector and fieldSelector. */
  readonly selectors: Readonly<Record<string, string>>;
  /** Left out where the API server does not know them: decoding drops what they would keep away. */
  readonly optionalSelectors?: Readonly<Record<string, string>>;
  /** Whose Services are asked for; absent: those that name no proxy. */
  readonly serviceProxyName?: string | undefined;
}

/** Where the objects of each kind are, in all namespaces. */
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

/** What is watched for the node called `nodeName`, in all namespaces. */
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
      // Known since Kubernetes 1.31 (kubernetes/kubernetes#123905).
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

/** Decides which Services get a load balancer's address, and which nodes receive their packets. Pure. */

export interface Service {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly resourceVersion: string;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly type?: string;
    readonly sessionAffinity?: string;
    readonly healthCheckNodePort?: number;
    readonly loadBalancerClass?: string;
    readonly ipFamilies?: readonly string[];
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] };
  };
}

/** The name that cloud providers use. */
export const finalizer = "service.kubernetes.io/load-balancer-cleanup";
/** The port on which a node reports whether its proxy is healthy. */
const proxyHealthPort = 10_256;

function isBalanced({ metadata, spec }: Service): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    spec.type === "LoadBalancer" &&
    spec.loadBalancerClass === undefined &&
    spec.ipFamilies?.[0] === "IPv4"
  );
}

function addressOf({ status }: Service): string | undefined {
  return status?.loadBalancer?.ingress?.[0]?.ip;
}

export interface Patch {
  readonly path: string;
  readonly change: object;
}

/**
 * Returns the next patch that a Service needs. The API server rejects it if the Service has changed in the meantime. If
 * the type changes, the API server removes the address.
 */
export function patchOf(service: Service, freeAddress: () => string): Patch | undefined {
  const { name, namespace, resourceVersion, finalizers = [] } = service.metadata;
  const path = `/api/v1/namespaces/${namespace}/services/${name}`;
  const metadata = { resourceVersion };
  const others = finalizers.filter((one) => one !== finalizer);
  const hasFinalizer = others.length < finalizers.length;
  if (isBalanced(service) !== hasFinalizer) {
    const wanted = hasFinalizer ? others : [...others, finalizer];
    return { path, change: { metadata: { ...metadata, finalizers: wanted } } };
  }
  if (!hasFinalizer || addressOf(service) !== undefined) return undefined;
  const status = { loadBalancer: { ingress: [{ ip: freeAddress() }] } };
  return { path: `${path}/status`, change: { metadata, status } };
}

export interface Balancer {
  readonly address: string;
  /** A node receives packets while `/healthz` on this port succeeds. */
  readonly healthPort: number;
  /** Whether all connections use the same node. */
  readonly hasAffinity: boolean;
}

/** Returns a balancer for each Service whose address satisfies `isOwn`. */
export function balancersOf(
  services: readonly Service[],
  isOwn: (address: string) => boolean,
): readonly Balancer[] {
  return services.filter(isBalanced).flatMap((service) => {
    const address = addressOf(service);
    if (address === undefined || !isOwn(address)) return [];
    const { healthCheckNodePort, sessionAffinity } = service.spec;
    const hasAffinity = sessionAffinity === "ClientIP";
    return { address, healthPort: healthCheckNodePort ?? proxyHealthPort, hasAffinity };
  });
}

/** Returns the arguments of `ip route replace`, or undefined if no node is healthy. */
export function routeOf(
  { address, hasAffinity }: Balancer,
  healthyNodes: readonly string[],
  source: string,
): readonly string[] | undefined {
  const used = hasAffinity ? healthyNodes.slice(0, 1) : healthyNodes;
  if (used.length === 0) return undefined;
  return [address, "src", source, ...used.flatMap((node) => ["nexthop", "via", node])];
}

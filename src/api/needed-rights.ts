/** The API permissions that kube-ipvs needs, a subset of ClusterRole system:node-proxier. */
export interface Right {
  /** Empty for the core API group. */
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
}

export const neededRights: readonly Right[] = [
  ...rightsTo("", "services", ["list", "watch"]),
  ...rightsTo("discovery.k8s.io", "endpointslices", ["list", "watch"]),
  ...rightsTo("", "nodes", ["list", "watch"]),
  ...rightsTo("events.k8s.io", "events", ["create", "patch"]),
];

/** The permissions that the secure metrics server needs. The ClusterRole system:auth-delegator grants them. */
export const reviewRights: readonly Right[] = [
  ...rightsTo("authentication.k8s.io", "tokenreviews", ["create"]),
  ...rightsTo("authorization.k8s.io", "subjectaccessreviews", ["create"]),
];

export function rightsTo(
  group: string,
  resource: string,
  verbs: readonly string[],
): readonly Right[] {
  return verbs.map((verb) => ({ group, resource, verb }));
}

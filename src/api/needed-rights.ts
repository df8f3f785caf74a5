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
  ...rightsTo("", "nodes", ["get", "list", "watch"]),
  ...rightsTo("events.k8s.io", "events", ["create", "patch"]),
];

export function rightsTo(
  group: string,
  resource: string,
  verbs: readonly string[],
): readonly Right[] {
  return verbs.map((verb) => ({ group, resource, verb }));
}

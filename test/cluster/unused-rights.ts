/** Why kube-ipvs has permissions that it did not use in any run. Pure. */

const builtIn = "Kubernetes' role system:node-proxier grants it";
const reasons: Readonly<Record<string, string>> = {
  "endpoints list": `${builtIn}; kube-ipvs reads only EndpointSlices`,
  "endpoints watch": `${builtIn}; kube-ipvs reads only EndpointSlices`,
  "events create": `${builtIn}; kube-ipvs writes only events.k8s.io`,
  "events patch": `${builtIn}; kube-ipvs writes only events.k8s.io`,
  "events update": `${builtIn}; kube-ipvs writes only events.k8s.io`,
  "events.events.k8s.io patch": "kube-ipvs patches an Event that is repeated; none was",
  "events.events.k8s.io update": `${builtIn}; kube-ipvs only creates and patches Events`,
  "nodes get": `${builtIn}; kube-ipvs lists and watches its own Node by name`,
  "servicecidrs.networking.k8s.io list": `${builtIn}; kube-ipvs does not need ServiceCIDRs`,
  "servicecidrs.networking.k8s.io watch": `${builtIn}; kube-ipvs does not need ServiceCIDRs`,
};

/** The permissions that have a reason, as `RESOURCE VERB`. */
export const explainedRights: readonly string[] = Object.keys(reasons);

/** Empty if there is no reason. */
export function unusedReason(proxy: string, resource: string, verb: string): string {
  return proxy === "kube-proxy"
    ? "Kubernetes defines kube-proxy's role"
    : (reasons[`${resource} ${verb}`] ?? "");
}

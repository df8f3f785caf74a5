/** Labels of EndpointSlices that have a meaning for Kubernetes. */
export const serviceNameLabel = "kubernetes.io/service-name";
export const managedByLabel = "endpointslice.kubernetes.io/managed-by";
export const headlessLabel = "service.kubernetes.io/headless";

/** The value of {@link managedByLabel} on slices that kube-ipvs made. */
export const ourManagerName = "kube-ipvs-endpoint-controller";

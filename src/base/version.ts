/** This program's version, as in package.json. */
export const version = "0.2.0";

/** The Kubernetes release whose kube-proxy behavior this program follows. */
export const kubernetesVersion = "1.36.2";

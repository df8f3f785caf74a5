/** This program's version, as in package.json. */
export const version = "0.2.0";

/** The Kubernetes release whose kube-proxy this program behaves like. */
export const kubernetesVersion = "1.36.2";

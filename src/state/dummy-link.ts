/** kube-proxy's name for the link that holds the addresses of Services; network plugins know it. */
export const dummyLinkName = "kube-ipvs0";

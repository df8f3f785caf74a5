/** Name of the link with the Services' addresses. kube-proxy uses the same name, and network plugins depend on it. */
export const dummyLinkName = "kube-ipvs0";

/**
 * How an IPv4 virtual IP becomes local: as an address on the link, as in kube-proxy, or through a local route. Routes
 * are faster, because the kernel stores them in a tree, but searches all addresses of the link before it adds one. IPv6
 * virtual IPs are always addresses, because the kernel stores IPv6 addresses in a hash table.
 */
export type VirtualAddresses = "addresses" | "routes";

/** kube-proxy's name for the link that holds the addresses of Services; network plugins know it. */
export const dummyLinkName = "kube-ipvs0";

/**
 * How an IPv4 virtual IP becomes one of this node: an address on the link, as kube-proxy binds it, or a local route. The
 * kernel walks all addresses of a link for each that is added; routes are in a tree. IPv6 addresses are in a hash table,
 * and are always addresses.
 */
export type VirtualAddresses = "addresses" | "routes";

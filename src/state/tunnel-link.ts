import type { IpFamily } from "../base/ip.ts";
import type { MatchProtocol } from "./rule.ts";

/**
 * The links that receive packets which other nodes forward through a tunnel. `protocol` is the protocol number in the
 * outer packet's header, for IPv4 in IPv4 or IPv6 in IPv6.
 */
export const tunnelLinks: Readonly<
  Record<
    IpFamily,
    { readonly name: string; readonly kind: string; readonly protocol: MatchProtocol }
  >
> = {
  IPv4: { name: "kube-ipvs-ipip", kind: "ipip", protocol: "ipencap" },
  IPv6: { name: "kube-ipvs-ip6", kind: "ip6tnl", protocol: "ipv6" },
};

/** Bytes that the outer header adds to each packet. */
export const tunnelOverheadBytes: Readonly<Record<IpFamily, number>> = { IPv4: 20, IPv6: 40 };

import { hostPort, type IpAddress } from "../base/ip.ts";
import { isInRanges, type PortRange, portRangeText } from "../base/port-range.ts";
import type { Protocol } from "../base/protocol.ts";

/** The packets that a virtual server with a firewall mark serves. */
export interface ServedRange {
  readonly address: IpAddress;
  readonly ranges: readonly PortRange[];
  readonly protocols: readonly Protocol[];
  readonly mark: number;
  /** Networks of the served clients. Undefined if all clients are served, or if set entries exclude the others. */
  readonly sources?: readonly string[];
  readonly masquerade: RangeMasquerade;
  /** Local endpoints, whose connections to themselves are always masqueraded. */
  readonly localEndpoints: readonly IpAddress[];
  /** Present for a single port with tunnel forwarding. */
  readonly tunnel?: Tunnel;
}

/**
 * `out`: packets from clients, which go to local endpoints or through a tunnel to other nodes. `in`: packets that
 * arrive through a tunnel, which go to local endpoints. Without real servers, packets get no mark.
 */
export interface Tunnel {
  readonly end: "out" | "in";
  readonly hasServers: boolean;
  /** Whether the range stands for a node port on all other Nodes. If so, `address` is this node's own address. */
  readonly isOfOtherNodes?: true;
}

/** `cluster`: like packets to cluster IPs. `local`: like packets to addresses with external policy Local. */
export type RangeMasquerade = "all" | "cluster" | "local";

/** For example `TCP,UDP 203.0.113.10:5060,10000-20000`. */
export function servedRangeText({ address, ranges, protocols }: ServedRange): string {
  const place = hostPort(address, 0).slice(0, -1);
  return `${protocols.join(",")} ${place}${ranges.map(portRangeText).join(",")}`;
}

/** Whether packets to this destination get the mark of the range. Source ranges are not considered. */
export function serves(
  { address, protocols, ranges, tunnel }: ServedRange,
  to: { readonly protocol: string; readonly address: string; readonly port: number },
): boolean {
  const isOfProtocol = protocols.some((protocol) => protocol === to.protocol);
  const isAddress = (address === to.address) !== (tunnel?.isOfOtherNodes === true);
  return isOfProtocol && isAddress && isInRanges(to.port, ranges);
}

/**
 * Virtual servers for port ranges. One virtual server with a firewall mark serves all of a Service's ranges and
 * protocols at one address. Real servers have port 0, so the kernel keeps the destination port. Pure.
 */
import { cidrText, hostPrefixLength, type IpAddress } from "../base/ip.ts";
import type { PortRange } from "../base/port-range.ts";
import type { Protocol } from "../base/protocol.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { ServedRange } from "../state/served-range.ts";
import type { Frontend } from "./frontends.ts";
import type { FamilyOptions } from "./options.ts";
import { admitsNode } from "./set-entries.ts";
import { hashOf } from "./spread.ts";

/** A Service's ranges in one family. */
export interface ServiceRanges {
  readonly ranges: readonly PortRange[];
  /** The protocols of the Service's ports. */
  readonly protocols: readonly Protocol[];
  /** Mask of the marks; see {@link rangeMark}. */
  readonly marks: number;
}

/**
 * The frontends at whose addresses ranges are served. They exclude node ports, and addresses that kube-ipvs does not
 * bind, because a range on a node address would capture traffic to the ports of local processes. Marks are hashes, so
 * several addresses may have the same mark. Only the first of them has ranges.
 */
export function rangeFrontends(
  frontends: readonly Frontend[],
  { marks }: ServiceRanges,
): ReadonlySet<Frontend> {
  const addresses = new Map<number, IpAddress>();
  const isRanged = ({ kind, address, isBound }: Frontend): boolean => {
    if (!isBound || kind === "node-port") return false;
    const mark = rangeMark(address, marks);
    const first = addresses.get(mark) ?? address;
    addresses.set(mark, first);
    return first === address;
  };
  return new Set(frontends.filter(isRanged));
}

/** The ranges at the address of one of the {@link rangeFrontends}. */
export function rangeAt(
  { kind, address, isLocal }: Frontend,
  { ranges, protocols, marks }: ServiceRanges,
  port: ServicePort,
  options: FamilyOptions,
  endpoints: readonly Endpoint[],
): ServedRange {
  const localEndpoints = new Set(
    endpoints.filter((endpoint) => endpoint.isLocal).map((endpoint) => endpoint.address),
  );
  const isRestricted = kind === "load-balancer" && port.sourceRanges.length > 0;
  const masquerade = kind === "cluster-ip" ? "cluster" : isLocal ? "local" : "all";
  return {
    ...{ address, ranges, protocols, masquerade, mark: rangeMark(address, marks) },
    localEndpoints: [...localEndpoints].sort(),
    ...(isRestricted ? { sources: sourcesOf(address, port, options) } : {}),
  };
}

/**
 * The admitted networks. They include the virtual IP if the node is admitted, because the node's packets have it as
 * their source address.
 */
function sourcesOf(
  address: IpAddress,
  port: ServicePort,
  options: FamilyOptions,
): readonly string[] {
  const own = admitsNode(port, options)
    ? [{ address, prefixLength: hostPrefixLength(port.family) }]
    : [];
  return [...port.sourceRanges, ...own].map(cidrText);
}

/**
 * A mark for packets to an address or a virtual server: a hash of `text` in the bits of `marks`, which are adjacent.
 * The mark is the same after a restart. If two texts have the same mark, claims resolve the conflict.
 */
export function rangeMark(text: string, marks: number): number {
  const unit = 2 ** (31 - Math.clz32(marks & -marks));
  return (1 + (hashOf(text, 0) % (marks / unit))) * unit;
}

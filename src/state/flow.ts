import { type IpAddress, parseIpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { RealServerId } from "./real-server.ts";

/** A conntrack entry, with the fields needed to delete stale entries. */
export interface Flow {
  readonly protocol: Protocol;
  /** Source of the client's packets. This field and the next three describe packets before translation. */
  readonly source: IpAddress;
  readonly sourcePort: number;
  readonly destination: IpAddress;
  readonly destinationPort: number;
  /** Source of the replies: the chosen real server, or the original destination if nothing was translated. */
  readonly replySource: IpAddress;
  readonly replySourcePort: number;
  /** The entry's ID (CTA_ID), which restricts a deletion to this entry. */
  readonly id?: number;
  /** The conntrack zone (CTA_ZONE). 0 or undefined means the default zone. */
  readonly zone?: number;
}

/**
 * Selects flows to one address and port. 127.0.0.1 selects flows to all addresses in 127.0.0.0/8. If `answeredBy` is
 * defined, only flows that this real server answers are selected.
 */
export interface FlowSelection {
  readonly destination: IpAddress;
  /** Undefined selects all ports. */
  readonly destinationPort?: number;
  readonly answeredBy?: RealServerId;
}

export function isSelected(flow: Flow, selection: FlowSelection): boolean {
  const { destination, destinationPort, answeredBy } = selection;
  if (destinationPort !== undefined && flow.destinationPort !== destinationPort) return false;
  if (servedDestination(flow.destination) !== servedDestination(destination)) return false;
  if (answeredBy === undefined) return true;
  return flow.replySource === answeredBy.address && flow.replySourcePort === answeredBy.port;
}

/** Returns 127.0.0.1 for all addresses in 127.0.0.0/8, because rules serve a node port on all of them. */
export function servedDestination(address: IpAddress): IpAddress {
  return address.startsWith("127.") ? loopback : address;
}

const loopback = parseIpAddress("127.0.0.1") as IpAddress;

/** Formats a flow for logs: `UDP 192.0.2.1:4000 -> 10.96.0.10:53 (10.244.1.5:53)`. */
export function flowText(flow: Flow): string {
  return (
    `${flow.protocol} ${flow.source}:${flow.sourcePort} -> ` +
    `${flow.destination}:${flow.destinationPort} (${flow.replySource}:${flow.replySourcePort})`
  );
}

import { type IpAddress, parseIpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";
import type { RealServerId } from "./real-server.ts";

/** A tracked connection, as far as stale-entry removal needs it. */
export interface Flow {
  readonly protocol: Protocol;
  /** The client's side as it sent it. */
  readonly source: IpAddress;
  readonly sourcePort: number;
  readonly destination: IpAddress;
  readonly destinationPort: number;
  /** Who answers: the chosen real server, or the original destination when nothing was translated. */
  readonly replySource: IpAddress;
  readonly replySourcePort: number;
  /** CTA_ID; makes a deletion exact. */
  readonly id?: number;
  /** CTA_ZONE; 0 or absent is the default zone. */
  readonly zone?: number;
}

/** Flows to one address and port, on 127.0.0.1 to those of all of 127.0.0.0/8; with `answeredBy` only those that this real server answers. */
export interface FlowSelection {
  readonly destination: IpAddress;
  readonly destinationPort: number;
  readonly answeredBy?: RealServerId;
}

export function isSelected(flow: Flow, selection: FlowSelection): boolean {
  const { destination, destinationPort, answeredBy } = selection;
  if (flow.destinationPort !== destinationPort) return false;
  if (servedDestination(flow.destination) !== servedDestination(destination)) return false;
  if (answeredBy === undefined) return true;
  return flow.replySource === answeredBy.address && flow.replySourcePort === answeredBy.port;
}

/** Rules that serve a node port on loopback do so on each address of 127.0.0.0/8: one stands for all. */
export function servedDestination(address: IpAddress): IpAddress {
  return address.startsWith("127.") ? loopback : address;
}

const loopback = parseIpAddress("127.0.0.1") as IpAddress;

/** `UDP 192.0.2.1:4000 -> 10.96.0.10:53 (10.244.1.5:53)`, for logs. */
export function flowText(flow: Flow): string {
  return (
    `${flow.protocol} ${flow.source}:${flow.sourcePort} -> ` +
    `${flow.destination}:${flow.destinationPort} (${flow.replySource}:${flow.replySourcePort})`
  );
}

import { type HostPort, hostPort, type IpAddress } from "../base/ip.ts";

/** IP_VS_CONN_F_TUNNEL: the packet is sent unchanged to the real server, which is a node, inside another IP packet. */
export const tunnelMethod = 2;

export function isTunnel({ forwardingMethod }: Pick<RealServer, "forwardingMethod">): boolean {
  return forwardingMethod === tunnelMethod;
}

/** Identifies a real server within its virtual server. */
export interface RealServerId {
  readonly address: IpAddress;
  readonly port: number;
}

/** A backend of a virtual server (destination in linux/ip_vs.h). */
export interface RealServer extends RealServerId {
  /** With weight 0, the real server gets no new connections (drain). The default for planned real servers is 1. */
  readonly weight: number;
  /**
   * IP_VS_CONN_F_FWD_MASK. We only use 0 (masquerading) and {@link tunnelMethod}; third parties may use other methods.
   */
  readonly forwardingMethod: number;
  /** Undefined if there is no limit. */
  readonly limit?: ConnectionLimit;
}

/**
 * A real server that reaches `upper` gets no new connections until it drops below `lower`. A `lower` of 0 means three
 * quarters of `upper`. Source: IPVS_DEST_ATTR_U_THRESH and IPVS_DEST_ATTR_L_THRESH.
 */
export interface ConnectionLimit {
  readonly upper: number;
  readonly lower: number;
}

/** A real server as the kernel reports it. */
export interface ObservedRealServer extends RealServer {
  readonly activeConnections: number;
  /** Includes TIME_WAIT and all UDP flows. */
  readonly inactiveConnections: number;
  /** Number of persistence templates for this real server. */
  readonly persistentConnections: number;
}

/** Identifies a real server within a virtual server: `10.244.1.5:8080`, `[fd00:244::5]:8080`. */
export function realServerKey(id: RealServerId): HostPort {
  return hostPort(id.address, id.port);
}

/** Whether both lists have the same content in any order. The kernel lists the newest real server first. */
export function sameRealServers(
  desired: readonly RealServer[],
  observed: readonly RealServer[],
): boolean {
  if (desired === observed) return true;
  if (desired.length !== observed.length) return false;
  const last = observed.length - 1;
  return (
    desired.every((server, index) => isSame(server, observed[index])) ||
    desired.every((server, index) => isSame(server, observed[last - index])) ||
    holdTheSame(desired, observed)
  );
}

/** Compares lists of equal length. Duplicates must occur equally often in both lists. */
function holdTheSame(desired: readonly RealServer[], observed: readonly RealServer[]): boolean {
  const left = new Map<string, number>();
  for (const server of observed) {
    const text = contentText(server);
    left.set(text, (left.get(text) ?? 0) + 1);
  }
  return desired.every((server) => {
    const text = contentText(server);
    const count = left.get(text) ?? 0;
    left.set(text, count - 1);
    return count > 0;
  });
}

function contentText(server: RealServer): string {
  return `${realServerKey(server)} ${server.weight} ${server.forwardingMethod} ${limitText(server)}`;
}

function isSame(desired: RealServer, observed: RealServer | undefined): boolean {
  if (observed === undefined || desired.address !== observed.address) return false;
  return desired.port === observed.port && sameRealServer(desired, observed);
}

export function sameRealServer(desired: RealServer, observed: RealServer): boolean {
  return (
    desired.weight === observed.weight &&
    desired.forwardingMethod === observed.forwardingMethod &&
    sameLimit(desired.limit, observed.limit)
  );
}

function sameLimit(one: ConnectionLimit | undefined, other: ConnectionLimit | undefined): boolean {
  return one?.upper === other?.upper && one?.lower === other?.lower;
}

function limitText({ limit }: RealServer): string {
  return limit === undefined ? "" : `${limit.upper} ${limit.lower}`;
}

/** Converts the limits that the kernel reports. Returns no limit if both are 0. */
export function limitOf(upper: number, lower: number): Pick<RealServer, "limit"> {
  return upper === 0 && lower === 0 ? {} : { limit: { upper, lower } };
}

import { hostPort, type IpAddress } from "../base/ip.ts";

/** What makes a real server that one within its virtual server. */
export interface RealServerId {
  readonly address: IpAddress;
  readonly port: number;
}

/** One target of a virtual server (destination in linux/ip_vs.h). */
export interface RealServer extends RealServerId {
  /** 0 takes no new connections (a drain). Wanted real servers have 1, unless their Service says otherwise. */
  readonly weight: number;
  /** IP_VS_CONN_F_FWD_MASK: 0 masquerading, which is the only one we make; others are foreign. */
  readonly forwardingMethod: number;
  /** Undefined if there are none. */
  readonly limit?: ConnectionLimit;
}

/**
 * A real server gets no new connections from `upper` on, until it has less than `lower`; 0: less than three quarters of
 * `upper`. IPVS_DEST_ATTR_U_THRESH and L_THRESH.
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
  /** Persistence templates that point here. */
  readonly persistentConnections: number;
}

/** Identity within a virtual server, as text: `10.244.1.5:8080`, `[fd00:244::5]:8080`. */
export function realServerKey(id: RealServerId): string {
  return hostPort(id.address, id.port);
}

/** Whether both lists hold the same, in whatever order: the kernel lists the other way round what was added one by one. */
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

/** Of lists of one length. One that is listed twice counts twice. */
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

/** What the kernel reports; absent where it is none. */
export function limitOf(upper: number, lower: number): Pick<RealServer, "limit"> {
  return upper === 0 && lower === 0 ? {} : { limit: { upper, lower } };
}

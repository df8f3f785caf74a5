import { hostPort, type IpAddress } from "../base/ip.ts";

/** What makes a real server that one within its virtual server. */
export interface RealServerId {
  readonly address: IpAddress;
  readonly port: number;
}

/** One target of a virtual server («destination» in linux/ip_vs.h). */
export interface RealServer extends RealServerId {
  /** 0 takes no new connections (a drain). Wanted real servers have 1. */
  readonly weight: number;
  /** IP_VS_CONN_F_FWD_MASK: 0 masquerading, which is the only one we make; others are foreign. */
  readonly forwardingMethod: number;
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

export function sameRealServer(desired: RealServer, observed: RealServer): boolean {
  return (
    desired.weight === observed.weight && desired.forwardingMethod === observed.forwardingMethod
  );
}

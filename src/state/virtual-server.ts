import { hostPort, type IpAddress } from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";

/** What makes a virtual server that one and no other. */
export interface VirtualServerId {
  readonly protocol: Protocol;
  readonly address: IpAddress;
  readonly port: number;
}

/** An address, port and protocol that IPVS balances ("service" in linux/ip_vs.h). */
export interface VirtualServer extends VirtualServerId {
  /** Scheduler module name without `ip_vs_`: rr, lc, mh … At most 15 characters. */
  readonly scheduler: string;
  /** Seconds a client keeps its real server; 0 turns persistence off. IPVS_SVC_ATTR_TIMEOUT. */
  readonly persistenceTimeoutSeconds: number;
  /** Prefix length by which clients are grouped for persistence: 32 or 128 is "each address alone". */
  readonly persistencePrefixLength: number;
  /**
   * IP_VS_SVC_F_* other than PERSISTENT (follows from the timeout) and HASHED (the kernel's own):
   * 0x4 one-packet, 0x8/0x10/0x20 scheduler flags 1–3 (`mh`: 0x10 hash with the source port).
   */
  readonly flags: number;
}

export const virtualServerFlags = {
  onePacket: 0x4,
  schedulerFallback: 0x8,
  schedulerPort: 0x10,
} as const;

/** Identity as text, and the way operators read it: `TCP 10.96.0.1:443`, `UDP [fd00::a]:53`. No virtual server has one of ICMP. */
export function virtualServerKey(id: {
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}): string {
  // Joined: a text of many parts keeps them all, and there are tens of thousands of these.
  return [id.protocol, " ", hostPort(id.address, id.port)].join("");
}

/** True when nothing need be written. Identity is taken for granted. */
export function sameVirtualServer(desired: VirtualServer, observed: VirtualServer): boolean {
  return (
    desired.scheduler === observed.scheduler &&
    desired.persistenceTimeoutSeconds === observed.persistenceTimeoutSeconds &&
    desired.persistencePrefixLength === observed.persistencePrefixLength &&
    desired.flags === observed.flags
  );
}

import {
  familyOf,
  hostPort,
  type IpAddress,
  type IpFamily,
  wildcardAddresses,
} from "../base/ip.ts";
import type { Protocol } from "../base/protocol.ts";

/**
 * Identifies a virtual server by protocol, address and port, or by its packets' firewall mark (`FWM`). A virtual server
 * with a mark has its family's unspecified address, and its port is the mark.
 */
export interface VirtualServerId {
  readonly protocol: Protocol | "FWM";
  readonly address: IpAddress;
  readonly port: number;
}

/** A virtual server without a firewall mark. */
export type AddressServerId = VirtualServerId & { readonly protocol: Protocol };

/** Whether a firewall mark consists of bits of this mask. */
export function isWithinMask(mark: number, mask: number): boolean {
  return (mark & ~mask) === 0;
}

export function markServerId(family: IpFamily, mark: number): VirtualServerId {
  return { protocol: "FWM", address: wildcardAddresses[family], port: mark };
}

/** An address, port and protocol that IPVS balances ("service" in linux/ip_vs.h). */
export interface VirtualServer extends VirtualServerId {
  /** Scheduler name (rr, lc, mh …), which is the module's name without `ip_vs_`. At most 15 characters. */
  readonly scheduler: string;
  /** How long a client keeps its real server; 0 disables persistence. Source: IPVS_SVC_ATTR_TIMEOUT. */
  readonly persistenceTimeoutSeconds: number;
  /** Clients in the same network of this prefix length share a real server. 32 or 128 means no grouping. */
  readonly persistencePrefixLength: number;
  /**
   * IP_VS_SVC_F_* flags, except PERSISTENT, which follows from the timeout, and HASHED, which the kernel sets.
   * 0x4 is one-packet; 0x8, 0x10 and 0x20 are scheduler flags 1–3 (for `mh`, 0x10 hashes the source port too).
   */
  readonly flags: number;
}

export const virtualServerFlags = {
  onePacket: 0x4,
  schedulerFallback: 0x8,
  schedulerPort: 0x10,
} as const;

/**
 * Identifies a virtual server as text: `TCP 10.96.0.1:443`, `UDP [fd00::a]:53`, `FWM 65537 IPv4`. Virtual servers never
 * have an ICMP key.
 */
export type ServerKey = string & { readonly __brand: "ServerKey" };

export function virtualServerKey(id: {
  readonly protocol: string;
  readonly address: string;
  readonly port: number;
}): ServerKey {
  const { port } = id;
  if (id.protocol === "FWM") return toServerKey(`FWM ${port} ${familyOf(id.address as IpAddress)}`);
  // `join` creates a flat string. A template would keep its parts in memory for each of tens of thousands of keys.
  return toServerKey([id.protocol, " ", hostPort(id.address, port)].join(""));
}

/** Takes a recorded key. The key is not checked, because a text that is not a key matches no virtual server. */
export function toServerKey(text: string): ServerKey {
  return text as ServerKey;
}

/** Whether two virtual servers with the same key have the same parameters, so that no update is needed. */
export function sameVirtualServer(desired: VirtualServer, observed: VirtualServer): boolean {
  return (
    desired.scheduler === observed.scheduler &&
    desired.persistenceTimeoutSeconds === observed.persistenceTimeoutSeconds &&
    desired.persistencePrefixLength === observed.persistencePrefixLength &&
    desired.flags === observed.flags
  );
}

/** Kernel settings that IPVS mode needs. Pure. */
import { linux, linuxOf } from "../base/kernel-version.ts";

export interface SysctlSetting {
  /** Path under /proc/sys, with slashes. */
  readonly path: string;
  readonly value: string;
}

export interface SysctlOptions {
  /** Whether each interface answers ARP requests only for its own addresses, and thus not for virtual IPs. */
  readonly strictARP: boolean;
  /** Whether nodes forward packets to each other through tunnels. */
  readonly isTunneling?: boolean;
  /** Kernel release from uname, such as `6.1.0-13-amd64`. */
  readonly kernelRelease: string;
}

/** Settings for every node; see linux/Documentation/networking/ipvs-sysctl.rst. */
const always: readonly SysctlSetting[] = [
  // Keeps conntrack entries for IPVS connections, which MASQUERADE needs.
  { path: "net/ipv4/vs/conntrack", value: "1" },
  // Ends a connection when a packet for a removed real server arrives. By default, the packet is silently dropped.
  { path: "net/ipv4/vs/expire_nodest_conn", value: "1" },
  // Prevents session affinity from keeping clients on a draining real server.
  { path: "net/ipv4/vs/expire_quiescent_template", value: "1" },
  { path: "net/ipv4/ip_forward", value: "1" },
];

const strictArp: readonly SysctlSetting[] = [
  { path: "net/ipv4/conf/all/arp_ignore", value: "1" },
  { path: "net/ipv4/conf/all/arp_announce", value: "2" },
];

/**
 * When an address moves to another node, that node receives packets of connections that began elsewhere. By default,
 * IPVS does not forward such packets.
 */
const tunneling: readonly SysctlSetting[] = [
  { path: "net/ipv4/vs/sloppy_tcp", value: "1" },
  { path: "net/ipv4/vs/sloppy_sctp", value: "1" },
];

/** Lists this kernel's settings. */
export function planSysctls(options: SysctlOptions): readonly SysctlSetting[] {
  return [
    ...always,
    ...(needsConnReuseOff(options.kernelRelease)
      ? [{ path: "net/ipv4/vs/conn_reuse_mode", value: "0" }]
      : []),
    ...(options.strictARP ? strictArp : []),
    ...(options.isTunneling === true ? tunneling : []),
  ];
}

/**
 * From Linux 4.1 to 5.8, a client that reuses a source port is delayed by one second if IPVS reschedules the connection
 * and conntrack is enabled. Linux 5.9 fixed this. The setting does not exist before 4.1.
 */
function needsConnReuseOff(kernelRelease: string): boolean {
  const version = linuxOf(kernelRelease);
  return version !== undefined && version >= linux(4, 1) && version < linux(5, 9);
}

/** Kernel settings that IPVS mode needs. Pure. */
import { linux, linuxOf } from "../base/kernel-version.ts";

export interface SysctlSetting {
  /** Under /proc/sys, with slashes. */
  readonly path: string;
  readonly value: string;
}

export interface SysctlOptions {
  /** Answer ARP only for addresses of the interface that was asked; virtual IPs stay silent. */
  readonly isStrictArp: boolean;
  /** uname release: `6.1.0-13-amd64`. */
  readonly kernelRelease: string;
}

/** What every node gets; linux/Documentation/networking/ipvs-sysctl.rst. */
const always: readonly SysctlSetting[] = [
  // Flows that IPVS handles keep their conntrack entries; MASQUERADE does not work without.
  { path: "net/ipv4/vs/conntrack", value: "1" },
  // A packet for a real server that was removed ends its connection instead of vanishing.
  { path: "net/ipv4/vs/expire_nodest_conn", value: "1" },
  // Session affinity does not hold clients at a real server that drains.
  { path: "net/ipv4/vs/expire_quiescent_template", value: "1" },
  { path: "net/ipv4/ip_forward", value: "1" },
];

const strictArp: readonly SysctlSetting[] = [
  { path: "net/ipv4/conf/all/arp_ignore", value: "1" },
  { path: "net/ipv4/conf/all/arp_announce", value: "2" },
];

/** Lists the settings for this kernel. */
export function planSysctls(options: SysctlOptions): readonly SysctlSetting[] {
  return [
    ...always,
    ...(needsConnReuseOff(options.kernelRelease)
      ? [{ path: "net/ipv4/vs/conn_reuse_mode", value: "0" }]
      : []),
    ...(options.isStrictArp ? strictArp : []),
  ];
}

/**
 * From 4.1 to 5.8 rescheduling a reused client port under conntrack cost the client a second; 5.9
 * repaired that, and before 4.1 there is no such setting.
 */
function needsConnReuseOff(kernelRelease: string): boolean {
  const version = linuxOf(kernelRelease);
  return version !== undefined && version >= linux(4, 1) && version < linux(5, 9);
}

/** Connection-tracking limits, as kube-proxy computes them. Pure. */
import type { SysctlSetting } from "./sysctls.ts";

export interface ConntrackOptions {
  /** 0 keeps the limit and the hash table unchanged. */
  readonly maxPerCore: number;
  readonly min: number;
  /** Timeouts in seconds. 0 keeps the kernel's value. */
  readonly tcpEstablishedTimeoutSeconds: number;
  readonly tcpCloseWaitTimeoutSeconds: number;
  readonly udpTimeoutSeconds: number;
  readonly udpStreamTimeoutSeconds: number;
  /** False keeps the kernel's value. */
  readonly tcpBeLiberal: boolean;
}

export interface ConntrackLimits {
  /** nf_conntrack_max, and the smallest hash table for that many entries. If undefined, both remain unchanged. */
  readonly max?: { readonly entries: number; readonly minBuckets: number };
  readonly sysctls: readonly SysctlSetting[];
}

/** Maximum of nf_conntrack_max, the same as in kube-proxy since 1.36. */
const mostEntries = 1_048_576;
/** Four entries per bucket keep the hash chains short. */
const entriesPerBucket = 4;
const folder = "net/netfilter";

/** Computes the limits that `options` request on a node with this many CPUs. */
export function planConntrackLimits(options: ConntrackOptions, cpuCount: number): ConntrackLimits {
  const entries = maxEntries(options, cpuCount);
  const minBuckets = Math.floor(entries / entriesPerBucket);
  return {
    ...(entries === 0 ? {} : { max: { entries, minBuckets } }),
    sysctls: [
      ...timeout("tcp_timeout_established", options.tcpEstablishedTimeoutSeconds),
      ...timeout("tcp_timeout_close_wait", options.tcpCloseWaitTimeoutSeconds),
      ...(options.tcpBeLiberal
        ? [{ path: `${folder}/nf_conntrack_tcp_be_liberal`, value: "1" }]
        : []),
      ...timeout("udp_timeout", options.udpTimeoutSeconds),
      ...timeout("udp_timeout_stream", options.udpStreamTimeoutSeconds),
    ],
  };
}

/** The value of nf_conntrack_max; 0 if it is not set. {@link mostEntries} takes precedence over `min`. */
function maxEntries({ maxPerCore, min }: ConntrackOptions, cpuCount: number): number {
  if (maxPerCore <= 0) return 0;
  const scaled = maxPerCore * cpuCount;
  return scaled > mostEntries ? mostEntries : Math.max(scaled, min);
}

function timeout(name: string, seconds: number): readonly SysctlSetting[] {
  return seconds > 0 ? [{ path: `${folder}/nf_conntrack_${name}`, value: String(seconds) }] : [];
}

/** Counts the CPUs in a list such as `0-3,8`. Undefined if the text is not a CPU list. */
export function countCpus(list: string): number | undefined {
  let count = 0;
  for (const part of list.trim().split(",")) {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    if (first === undefined) return undefined;
    count += Number(last) - Number(first) + 1;
  }
  return count;
}

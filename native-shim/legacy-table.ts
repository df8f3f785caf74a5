/** Legacy iptables tables as stored in the kernel. */
import { addon } from "./load-addon.ts";

/**
 * Returns a table's entries in the calling thread's network namespace: consecutive struct ipt_entry (`family` 4) or
 * ip6t_entry (6) of linux/netfilter_ipv4/ip_tables.h and linux/netfilter_ipv6/ip6_tables.h, counters included. The
 * kernel creates a missing table. Throws an Error with `errno` and `operation`: EMSGSIZE if the table is larger than
 * `maxBytes`, EAGAIN if it changed while it was being read.
 */
export function readLegacyTable(family: 4 | 6, name: string, maxBytes: number): Uint8Array {
  return addon().readLegacyTable(name, family, maxBytes);
}

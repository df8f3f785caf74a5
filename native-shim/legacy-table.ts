/** Legacy iptables tables as stored in the kernel. */
import { addon } from "./load-addon.ts";

/**
 * Returns the entries of a table in the network namespace of the calling thread: consecutive struct ipt_entry
 * (`family` 4) or ip6t_entry (6) of linux/netfilter_ipv4/ip_tables.h and linux/netfilter_ipv6/ip6_tables.h, counters
 * included. The kernel creates a table that does not exist yet. Throws an Error with `errno` and `operation`:
 * EMSGSIZE if the table has more than `maxBytes`, EAGAIN if it changed while it was being read.
 */
export function readLegacyTable(family: 4 | 6, name: string, maxBytes: number): Uint8Array {
  return addon().readLegacyTable(name, family, maxBytes);
}

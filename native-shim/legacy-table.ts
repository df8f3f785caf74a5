/** Tables of legacy iptables, as the kernel holds them. */
import { addon } from "./load-addon.ts";

/**
 * The entries of a table: struct ipt_entry (`family` 4) or ip6t_entry (6) of linux/netfilter_ipv4/ip_tables.h and
 * linux/netfilter_ipv6/ip6_tables.h, one behind the other, counters included. Of the network namespace of the
 * calling thread. The kernel makes a table that nobody has used. Throws an Error with `errno` and `operation`:
 * EMSGSIZE when there are more than `maxBytes`, EAGAIN when the table was changed meanwhile.
 */
export function readLegacyTable(family: 4 | 6, name: string, maxBytes: number): Uint8Array {
  return addon().readLegacyTable(name, family, maxBytes);
}

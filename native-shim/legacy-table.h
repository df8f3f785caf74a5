/*
 * A table of legacy iptables as the kernel holds it: getsockopt on a raw socket, as iptables-legacy
 * itself does (linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h).
 */
#ifndef LEGACY_TABLE_H
#define LEGACY_TABLE_H

#include <stddef.h>

#include "receive-loop.h"

/*
 * Appends the entries of a table, struct ipt_entry or ip6t_entry behind each other, in the network
 * namespace of the calling thread. `family`: AF_INET or AF_INET6. A table that nobody has used is made
 * by the kernel; whoever minds looks into /proc/net/ip_tables_names before. Returns 0 or an errno, with
 * `failed` naming the call: EMSGSIZE when there are more than `max_bytes`, EAGAIN when the table was
 * changed meanwhile.
 */
int read_legacy_table(int family, const char *name, size_t max_bytes, struct reply_buffer *entries,
                      const char **failed);

#endif

/*
 * A legacy iptables table as stored in the kernel, read with getsockopt on a raw socket, like
 * iptables-legacy does (linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h).
 */
#ifndef LEGACY_TABLE_H
#define LEGACY_TABLE_H

#include <stddef.h>

#include "receive-loop.h"

/*
 * Appends the entries of a table (consecutive struct ipt_entry or ip6t_entry) in the network
 * namespace of the calling thread. `family`: AF_INET or AF_INET6. The kernel creates a table that
 * does not exist yet; callers that must avoid this check /proc/net/ip_tables_names first. Returns
 * 0 or an errno, and sets `failed` to the name of the failed call. EMSGSIZE: the table has more
 * than `max_bytes`. EAGAIN: the table changed while it was being read.
 */
int read_legacy_table(int family, const char *name, size_t max_bytes, struct reply_buffer *entries,
                      const char **failed);

#endif

/*
 * A legacy iptables table as stored in the kernel, read with getsockopt on a raw socket, as
 * iptables-legacy does (linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h).
 */
#ifndef LEGACY_TABLE_H
#define LEGACY_TABLE_H

#include <stddef.h>

#include "receive-loop.h"

/*
 * Appends a table's entries (consecutive struct ipt_entry or ip6t_entry) in the calling thread's
 * network namespace. `family` is AF_INET or AF_INET6. The kernel creates a missing table; to
 * prevent this, callers check /proc/net/ip_tables_names first. Returns 0 or an errno, and sets
 * `failed` to the name of the failed call. EMSGSIZE means that the table is larger than
 * `max_bytes`. EAGAIN means that it changed while it was being read.
 */
int read_legacy_table(int family, const char *name, size_t max_bytes, struct reply_buffer *entries,
                      const char **failed);

#endif

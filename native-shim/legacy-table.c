#include "legacy-table.h"

#include <errno.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Both families use the same option numbers and structure layouts, as the assertions check. */
_Static_assert(IPT_SO_GET_INFO == IP6T_SO_GET_INFO && IPT_SO_GET_ENTRIES == IP6T_SO_GET_ENTRIES,
               "same number for both families");
_Static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo), "same layout");
_Static_assert(sizeof(struct ipt_get_entries) == sizeof(struct ip6t_get_entries), "same layout");

static int get_entries(int fd, int level, const struct ipt_getinfo *info,
                       struct reply_buffer *entries, const char **failed) {
  socklen_t length = (socklen_t)(sizeof(struct ipt_get_entries) + info->size);
  *failed = "allocate";
  struct ipt_get_entries *table = calloc(1, length);
  if (table == NULL) return ENOMEM;
  memcpy(table->name, info->name, sizeof table->name);
  table->size = info->size;
  *failed = "getsockopt IPT_SO_GET_ENTRIES";
  int error = getsockopt(fd, level, IPT_SO_GET_ENTRIES, table, &length) == 0 ? 0 : errno;
  if (error == 0 && reply_buffer_grow(entries, entries->length + info->size) != 0) {
    *failed = "allocate";
    error = ENOMEM;
  }
  if (error == 0) {
    memcpy(entries->bytes + entries->length, table->entrytable, info->size);
    entries->length += info->size;
  }
  free(table);
  return error;
}

static int get_table(int fd, int level, const char *name, size_t max_bytes,
                     struct reply_buffer *entries, const char **failed) {
  struct ipt_getinfo info = {0};
  socklen_t length = sizeof info;
  *failed = "name";
  if (strlen(name) >= sizeof info.name) return ENAMETOOLONG;
  strcpy(info.name, name);
  *failed = "getsockopt IPT_SO_GET_INFO";
  if (getsockopt(fd, level, IPT_SO_GET_INFO, &info, &length) != 0) return errno;
  if (info.size > max_bytes) return EMSGSIZE;
  return get_entries(fd, level, &info, entries, failed);
}

int read_legacy_table(int family, const char *name, size_t max_bytes, struct reply_buffer *entries,
                      const char **failed) {
  *failed = "socket";
  int raw = socket(family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
  if (raw < 0) return errno;
  int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
  int error = get_table(raw, level, name, max_bytes, entries, failed);
  close(raw);
  return error;
}

/*
 * A library (LD_PRELOAD) that simulates IPVS for the daemon on a machine whose kernel lacks it, to
 * measure the cost of startup on the host itself. Generic netlink requests go to a stub that has
 * the family IPVS and its default timeouts, accepts every change and lists nothing.
 * /proc/net/ip_vs is empty, and the sysctls under net/ipv4/vs are files in the folder
 * PRETEND_SYSCTLS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_FILES = 1024, FAMILY = 0x22 };

/* The other end of each stubbed socket, by descriptor. 0 if a socket is not stubbed. */
static int other_end[MOST_FILES];

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_stubbed(int fd) {
  return fd > 0 && fd < MOST_FILES && other_end[fd] != 0;
}

int socket(int domain, int type, int protocol) {
  if (domain != AF_NETLINK || protocol != NETLINK_GENERIC) return NEXT(socket)(domain, type, protocol);
  int ends[2];
  int flags = type & (SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socketpair(AF_UNIX, SOCK_DGRAM | flags, 0, ends) != 0) return -1;
  if (ends[0] < MOST_FILES) other_end[ends[0]] = ends[1];
  return ends[0];
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
  return is_stubbed(fd) ? 0 : NEXT(setsockopt)(fd, level, name, value, size);
}

int bind(int fd, const struct sockaddr *address, socklen_t size) {
  return is_stubbed(fd) ? 0 : NEXT(bind)(fd, address, size);
}

static size_t family_reply(char *reply, uint32_t sequence) {
  struct {
    struct nlmsghdr header;
    struct genlmsghdr generic;
    struct nlattr id_head;
    uint16_t id, padding;
    struct nlattr name_head;
    char name[8];
  } answer = {.id = FAMILY, .name = IPVS_GENL_NAME};
  answer.header.nlmsg_len = sizeof answer;
  answer.header.nlmsg_type = GENL_ID_CTRL;
  answer.header.nlmsg_seq = sequence;
  answer.generic.cmd = CTRL_CMD_NEWFAMILY;
  answer.id_head.nla_len = NLA_HDRLEN + sizeof answer.id;
  answer.id_head.nla_type = CTRL_ATTR_FAMILY_ID;
  answer.name_head.nla_len = NLA_HDRLEN + sizeof IPVS_GENL_NAME;
  answer.name_head.nla_type = CTRL_ATTR_FAMILY_NAME;
  memcpy(reply, &answer, sizeof answer);
  return sizeof answer;
}

/* The timeouts in seconds that IPVS has by default. */
static size_t config_reply(char *reply, uint32_t sequence) {
  struct {
    struct nlmsghdr header;
    struct genlmsghdr generic;
    struct {
      struct nlattr head;
      uint32_t seconds;
    } timeouts[3];
  } answer = {
      .timeouts = {{{8, IPVS_CMD_ATTR_TIMEOUT_TCP}, 900},
                   {{8, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN}, 120},
                   {{8, IPVS_CMD_ATTR_TIMEOUT_UDP}, 300}},
  };
  answer.header.nlmsg_len = sizeof answer;
  answer.header.nlmsg_type = FAMILY;
  answer.header.nlmsg_seq = sequence;
  answer.generic.cmd = IPVS_CMD_SET_CONFIG;
  memcpy(reply, &answer, sizeof answer);
  return sizeof answer;
}

static size_t end_reply(char *reply, const struct nlmsghdr *request, int is_dump) {
  struct {
    struct nlmsghdr header;
    int32_t error;
    struct nlmsghdr request;
  } answer = {.request = *request};
  size_t size = is_dump ? NLMSG_LENGTH(4) : sizeof answer;
  answer.header.nlmsg_len = (uint32_t)size;
  answer.header.nlmsg_type = is_dump ? NLMSG_DONE : NLMSG_ERROR;
  answer.header.nlmsg_flags = is_dump ? NLM_F_MULTI : NLM_F_CAPPED;
  answer.header.nlmsg_seq = request->nlmsg_seq;
  memcpy(reply, &answer, size);
  return size;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
  if (!is_stubbed(fd)) return NEXT(send)(fd, bytes, size, flags);
  char reply[256];
  int left = (int)size;
  for (struct nlmsghdr *one = (void *)bytes; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
    int is_dump = (one->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    if (one->nlmsg_type == GENL_ID_CTRL) {
      NEXT(send)(other_end[fd], reply, family_reply(reply, one->nlmsg_seq), 0);
    } else if (((struct genlmsghdr *)NLMSG_DATA(one))->cmd == IPVS_CMD_GET_CONFIG) {
      NEXT(send)(other_end[fd], reply, config_reply(reply, one->nlmsg_seq), 0);
    }
    if (is_dump || (one->nlmsg_flags & NLM_F_ACK)) {
      NEXT(send)(other_end[fd], reply, end_reply(reply, one, is_dump), 0);
    }
  }
  return (ssize_t)size;
}

static const char *redirected(const char *path, char *buffer, size_t size) {
  static const char sysctls[] = "/proc/sys/net/ipv4/vs/";
  const char *folder = getenv("PRETEND_SYSCTLS");
  if (strcmp(path, "/proc/net/ip_vs") == 0) return "/dev/null";
  if (folder == NULL || strncmp(path, sysctls, sizeof sysctls - 1) != 0) return path;
  snprintf(buffer, size, "%s/%s", folder, path + sizeof sysctls - 1);
  return buffer;
}

static int open_redirected(const char *path, int flags, mode_t mode) {
  char buffer[4096];
  return openat(AT_FDCWD, redirected(path, buffer, sizeof buffer), flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_redirected(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_redirected(path, flags, mode);
}

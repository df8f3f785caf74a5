/*
 * A library (LD_PRELOAD) that simulates IPVS for the daemon on a machine whose kernel lacks it, to
 * measure it on the host itself. Generic netlink requests go to a stub that has the family IPVS and
 * its default timeouts, accepts every change, and lists the servers as they were written.
 * /proc/net/ip_vs is empty, and the sysctls under net/ipv4/vs are files in the folder
 * PRETEND_SYSCTLS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MOST_FILES = 1024, FAMILY = 0x22, BUCKETS = 1 << 16, DATAGRAM_BYTES = 16384 };
/* The attributes that identify a virtual or real server are written first. */
enum { SERVICE_KEY = 8 + 8 + 20 + 8, DESTINATION_KEY = 20 + 8 };

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
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, ends) != 0) return -1;
  /* A dump is queued as a whole. */
  int bytes = 1 << 28;
  NEXT(setsockopt)(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
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

/* A virtual server, or one of its real servers: the attribute that created it. */
struct server {
  struct server *next, *real_servers;
  struct nlattr *attribute;
};
static struct server *services[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct server **bucket_of(const struct nlattr *service) {
  uint32_t hash = 2166136261u;
  const uint8_t *key = (const void *)(service + 1);
  for (int at = 0; at < SERVICE_KEY; at++) hash = (hash ^ key[at]) * 16777619u;
  return &services[(hash ^ hash >> 16) % BUCKETS];
}

static struct server **find(struct server **list, const struct nlattr *attribute, size_t key) {
  while (*list != NULL && memcmp((*list)->attribute + 1, attribute + 1, key) != 0)
    list = &(*list)->next;
  return list;
}

static void put(struct server **at, const struct nlattr *attribute) {
  if (*at == NULL) *at = calloc(1, sizeof **at);
  free((*at)->attribute);
  (*at)->attribute = memcpy(malloc(attribute->nla_len), attribute, attribute->nla_len);
}

static void remove_at(struct server **at) {
  struct server *gone = *at;
  if (gone == NULL) return;
  while (gone->real_servers != NULL) remove_at(&gone->real_servers);
  *at = gone->next;
  free(gone->attribute);
  free(gone);
}

static void change(uint8_t command, const struct nlattr *service) {
  struct server **at = find(bucket_of(service), service, SERVICE_KEY);
  const struct nlattr *real = (const void *)((const char *)service + NLA_ALIGN(service->nla_len));
  struct server **real_at = *at == NULL ? NULL : &(*at)->real_servers;
  if (command == IPVS_CMD_NEW_SERVICE || command == IPVS_CMD_SET_SERVICE) put(at, service);
  else if (command == IPVS_CMD_DEL_SERVICE) remove_at(at);
  else if (real_at == NULL || command == IPVS_CMD_GET_SERVICE) return;
  else if (command == IPVS_CMD_DEL_DEST) remove_at(find(real_at, real, DESTINATION_KEY));
  else put(find(real_at, real, DESTINATION_KEY), real);
}

/* A reply to a dump, sent as the kernel does: several messages in each datagram. */
struct dump {
  int fd;
  struct nlmsghdr header;
  struct genlmsghdr generic;
  size_t length;
  char datagram[DATAGRAM_BYTES];
};

static void flush(struct dump *dump) {
  if (dump->length > 0) NEXT(send)(dump->fd, dump->datagram, dump->length, 0);
  dump->length = 0;
}

static void list(struct dump *dump, const struct server *one) {
  for (; one != NULL; one = one->next) {
    size_t size = one->attribute->nla_len;
    dump->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(GENL_HDRLEN + NLA_ALIGN(size));
    if (dump->length + dump->header.nlmsg_len > sizeof dump->datagram) flush(dump);
    char *message = dump->datagram + dump->length;
    memcpy(message, &dump->header, NLMSG_HDRLEN);
    memcpy(message + NLMSG_HDRLEN, &dump->generic, GENL_HDRLEN);
    memcpy(message + NLMSG_HDRLEN + GENL_HDRLEN, one->attribute, size);
    dump->length += dump->header.nlmsg_len;
  }
}

static void answer_dump(int fd, const struct nlmsghdr *request, uint8_t command,
                        struct nlattr *service) {
  struct dump dump = {.fd = fd, .header = {.nlmsg_type = FAMILY, .nlmsg_flags = NLM_F_MULTI}};
  dump.header.nlmsg_seq = request->nlmsg_seq;
  /* A list consists of the messages that would create it. */
  dump.generic.cmd = command == IPVS_CMD_GET_DEST ? IPVS_CMD_NEW_DEST : IPVS_CMD_NEW_SERVICE;
  if (command == IPVS_CMD_GET_DEST) {
    const struct server *server = *find(bucket_of(service), service, SERVICE_KEY);
    if (server != NULL) list(&dump, server->real_servers);
  } else {
    for (int at = 0; at < BUCKETS; at++) list(&dump, services[at]);
  }
  flush(&dump);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
  if (!is_stubbed(fd)) return NEXT(send)(fd, bytes, size, flags);
  char reply[256];
  int left = (int)size;
  for (struct nlmsghdr *one = (void *)bytes; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
    int is_dump = (one->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    struct genlmsghdr *generic = NLMSG_DATA(one);
    if (one->nlmsg_type == GENL_ID_CTRL) {
      NEXT(send)(other_end[fd], reply, family_reply(reply, one->nlmsg_seq), 0);
    } else if (generic->cmd == IPVS_CMD_GET_CONFIG) {
      NEXT(send)(other_end[fd], reply, config_reply(reply, one->nlmsg_seq), 0);
    } else if (generic->cmd <= IPVS_CMD_GET_DEST) {
      pthread_mutex_lock(&lock);
      if (is_dump) answer_dump(other_end[fd], one, generic->cmd, (void *)(generic + 1));
      else change(generic->cmd, (void *)(generic + 1));
      pthread_mutex_unlock(&lock);
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

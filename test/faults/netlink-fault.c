/*
 * A library (LD_PRELOAD) that makes the kernel reject selected netlink requests with a given errno,
 * as if memory were short, permissions were missing, or an object were in use. A selected request
 * is sent with a message type that no kernel has, so it is never executed. The kernel's rejection
 * arrives in order with the other answers, and the library replaces its errno. ENOBUFS is simulated
 * as the kernel reports it: the answer is lost, and the receiving call fails.
 *
 * This library is not part of the product's shim. Fault injection in a program that runs as root on
 * every node would itself be a risk, and the tests must run the shipped code.
 *
 * The file whose path is in NETLINK_FAULT contains the command "PROTOCOL SUBSYSTEM ERRNO PERCENT".
 * SUBSYSTEM is -1 for protocols without subsystems. Without the file, nothing is rejected. Each
 * rejected request adds a byte to NETLINK_FAULT.hits.
 *
 * "PROTOCOL SUBSYSTEM ERRNO PERCENT HEX" rejects only changes that contain these bytes, such as the
 * address of one real server. Dumps are not affected.
 *
 * "kill N" kills the process after its Nth subsequent write to the kernel, in any protocol. If the
 * write is in the middle of a datagram, the rest of the datagram is not sent.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_HITS = 4096, UNKNOWN_TYPE = 0xfffe, MOST_CONTENT = 64 };

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct fault {
  int protocol, subsystem, error, percent;
  /* Bytes that a selected request contains. With length 0, every request is selected. */
  unsigned char content[MOST_CONTENT];
  size_t content_length;
  /* The write after which the process is killed, or 0 for none. */
  int last_write;
};

struct hit {
  int fd, error;
  uint32_t sequence;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hit hits[MOST_HITS];
static size_t hit_count;

static int protocol_of(int fd) {
  int domain = 0, protocol = -1;
  socklen_t size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_NETLINK) return -1;
  size = sizeof protocol;
  return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 ? protocol : -1;
}

static void read_content(struct fault *fault, const char *hex) {
  unsigned int byte;
  while (fault->content_length < MOST_CONTENT && sscanf(hex, "%2x", &byte) == 1) {
    fault->content[fault->content_length++] = (unsigned char)byte;
    hex += 2;
  }
}

static int read_fault(struct fault *fault) {
  const char *path = getenv("NETLINK_FAULT");
  if (path == NULL) return 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[256] = "", hex[2 * MOST_CONTENT + 1] = "";
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length > 0 && sscanf(text, "kill %d", &fault->last_write) == 1) return 1;
  if (length <= 0 || sscanf(text, "%d %d %d %d %128s", &fault->protocol, &fault->subsystem, &fault->error,
                            &fault->percent, hex) < 4)
    return 0;
  read_content(fault, hex);
  return 1;
}

static void tell_hit(void) {
  char path[256];
  snprintf(path, sizeof path, "%s.hits", getenv("NETLINK_FAULT"));
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, "x", 1) != 1) abort();
  close(fd);
}

/*
 * Whether a request modifies state. After the first sync, this is true for all requests except
 * dumps.
 */
static int is_write(const struct nlmsghdr *header) {
  return header->nlmsg_type >= NLMSG_MIN_TYPE && (header->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP;
}

/* Whether a complete request contains the bytes of the fault. `request` begins with its header. */
static int carries(const char *request, const struct nlmsghdr *header, const struct fault *fault) {
  if (fault->content_length == 0) return 1;
  return is_write(header) && memmem(request, header->nlmsg_len, fault->content, fault->content_length) != NULL;
}

static int is_chosen(const struct nlmsghdr *header, const struct fault *fault) {
  if (header->nlmsg_type < NLMSG_MIN_TYPE) return 0;
  if (fault->subsystem >= 0 && header->nlmsg_type >> 8 != fault->subsystem) return 0;
  return rand() % 100 < fault->percent;
}

/* Invalidates the selected requests of a batch and records their sequence numbers. */
static void spoil(int fd, char *bytes, size_t length, const struct fault *fault) {
  for (size_t at = 0; at + sizeof(struct nlmsghdr) <= length;) {
    struct nlmsghdr header;
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > length - at) return;
    if (hit_count < MOST_HITS && carries(bytes + at, &header, fault) && is_chosen(&header, fault)) {
      hits[hit_count++] = (struct hit){fd, fault->error, header.nlmsg_seq};
      /*
       * The nfnetlink subsystem is kept, because the kernel would otherwise reject the whole batch.
       */
      header.nlmsg_type = fault->subsystem >= 0 ? (uint16_t)(fault->subsystem << 8 | 0xfe) : UNKNOWN_TYPE;
      if (fault->subsystem < 0 && fault->protocol == NETLINK_ROUTE) header.nlmsg_type = 0xfe;
      header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
      memcpy(bytes + at, &header, sizeof header);
      tell_hit();
    }
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
}

/* Counts writes. Sends the datagram up to the last write, and kills the process. */
static void die_after(int last_write, int fd, const char *bytes, size_t length, int flags) {
  static int writes;
  for (size_t at = 0; at + sizeof(struct nlmsghdr) <= length;) {
    struct nlmsghdr header;
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header) return;
    at += NLMSG_ALIGN(header.nlmsg_len);
    if (!is_write(&header) || ++writes < last_write) continue;
    NEXT(send)(fd, bytes, at < length ? at : length, flags);
    kill(getpid(), SIGKILL);
  }
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  struct fault fault = {0};
  if (protocol_of(fd) < 0 || !read_fault(&fault)) return NEXT(send)(fd, bytes, length, flags);
  if (fault.last_write > 0) {
    pthread_mutex_lock(&lock);
    die_after(fault.last_write, fd, bytes, length, flags);
    pthread_mutex_unlock(&lock);
    return NEXT(send)(fd, bytes, length, flags);
  }
  if (protocol_of(fd) != fault.protocol) return NEXT(send)(fd, bytes, length, flags);
  char *copy = malloc(length);
  if (copy == NULL) abort();
  memcpy(copy, bytes, length);
  pthread_mutex_lock(&lock);
  spoil(fd, copy, length, &fault);
  pthread_mutex_unlock(&lock);
  ssize_t sent = NEXT(send)(fd, copy, length, flags);
  free(copy);
  return sent;
}

static int take_hit(int fd, uint32_t sequence) {
  for (size_t index = 0; index < hit_count; index++) {
    if (hits[index].fd != fd || hits[index].sequence != sequence) continue;
    int error = hits[index].error;
    hits[index] = hits[--hit_count];
    return error;
  }
  return 0;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  ssize_t received = NEXT(recvmsg)(fd, message, flags);
  if (received <= 0 || hit_count == 0 || protocol_of(fd) < 0) return received;
  char *bytes = message->msg_iov[0].iov_base;
  int is_lost = 0;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at + sizeof(struct nlmsghdr) + sizeof(int) <= (size_t)received;) {
    struct nlmsghdr header;
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header) break;
    int error = header.nlmsg_type == NLMSG_ERROR ? take_hit(fd, header.nlmsg_seq) : 0;
    if (error == ENOBUFS) is_lost = 1;
    int answer = -error;
    if (error != 0) memcpy(bytes + at + sizeof header, &answer, sizeof answer);
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  pthread_mutex_unlock(&lock);
  if (!is_lost) return received;
  errno = ENOBUFS;
  return -1;
}

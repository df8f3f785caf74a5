/*
 * Preloaded into Node: makes send(2) of a request with sequence number
 * 0x57a10000 + n block for n milliseconds, which no signal and no closing can
 * end. A stand-in for somebody who holds a kernel lock.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { STALL = 0x57a10000, MS = 1000000 };

static void stall_ms(long ms) {
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    continue;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  ssize_t (*next)(int, const void *, size_t, int);
  *(void **)&next = dlsym(RTLD_NEXT, "send");
  struct nlmsghdr header = {0};
  if (length >= sizeof header)
    memcpy(&header, bytes, sizeof header);
  int domain = 0;
  socklen_t size = sizeof domain;
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_NETLINK && (header.nlmsg_seq & 0xffff0000u) == STALL)
    stall_ms(header.nlmsg_seq & 0xffff);
  return next(fd, bytes, length, flags);
}

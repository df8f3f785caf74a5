/*
 * A library (LD_PRELOAD) for Node.js that simulates a kernel lock: send(2) of a request with
 * sequence number 0x57a1 blocks as long as the file named in STALL_FILE exists. Neither a signal
 * nor closing the socket ends the call.
 */
#include <dlfcn.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STALLING_SEQUENCE = 0x57a1, MS = 1000000 };

static int is_netlink(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_NETLINK;
}

static void stall(void) {
  const char *file = getenv("STALL_FILE");
  while (file != NULL && access(file, F_OK) == 0)
    nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  ssize_t (*next)(int, const void *, size_t, int);
  *(void **)&next = dlsym(RTLD_NEXT, "send");
  struct nlmsghdr header = {0};
  if (length >= sizeof header)
    memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_seq == STALLING_SEQUENCE && is_netlink(fd))
    stall();
  return next(fd, bytes, length, flags);
}

/*
 * One end of SCTP associations, because Node.js has no SCTP sockets. For tests only.
 *
 *   sctp-station answer NAME PORT ADDRESS... prints "ready", then answers one client after another
 *   sctp-station ask reads lines "ADDRESS PORT TIMEOUT_MS FROM", FROM may be "-", and
 *                                              prints a line with each association's outcome
 *
 * An answer is a line of JSON: the name of the answering station, the client's address, and the
 * number of bytes received. Otherwise `ask` prints "silence" or the name of an errno. Each end
 * binds one address. With more, the ends would announce all their addresses to each other (RFC
 * 9260, 6.4), and the association would also use addresses other than the virtual one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct address {
  struct sockaddr_storage storage;
  socklen_t length;
};

static void fail(const char *what) {
  fprintf(stderr, "sctp-station: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct address parse(const char *text, const char *port) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
  struct address address;
  if (getaddrinfo(text, port, &hints, &found) != 0) {
    errno = EINVAL;
    fail(text);
  }
  memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

/*
 * The source address that the kernel chooses for this destination, taken from a connected UDP
 * socket.
 */
static struct address source_towards(const struct address *target) {
  struct address source = {.length = sizeof(source.storage)};
  int probe = socket(target->storage.ss_family, SOCK_DGRAM, 0);
  if (probe < 0 || connect(probe, (const struct sockaddr *)&target->storage, target->length) != 0) fail("route");
  if (getsockname(probe, (struct sockaddr *)&source.storage, &source.length) != 0) fail("getsockname");
  close(probe);
  /* The port is at the same offset for IPv4 and IPv6. */
  ((struct sockaddr_in *)&source.storage)->sin_port = 0;
  return source;
}

static int open_bound(const struct address *address, int flags) {
  int one = 1;
  int descriptor = socket(address->storage.ss_family, SOCK_STREAM | flags, IPPROTO_SCTP);
  if (descriptor < 0) fail("socket");
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(descriptor, (const struct sockaddr *)&address->storage, address->length) != 0) fail("bind");
  return descriptor;
}

/* Accepts a client's association and answers its message. */
static void serve(int listener, const char *name) {
  struct address client = {.length = sizeof(client.storage)};
  char source[NI_MAXHOST], request[2048], line[2048 + NI_MAXHOST];
  int association = accept(listener, (struct sockaddr *)&client.storage, &client.length);
  if (association < 0) return;
  ssize_t received = recv(association, request, sizeof(request), 0);
  if (received > 0) {
    getnameinfo((struct sockaddr *)&client.storage, client.length, source, sizeof(source), NULL, 0, NI_NUMERICHOST);
    int length = snprintf(line, sizeof(line), "{\"backend\":\"%s\",\"source\":\"%s\",\"receivedBytes\":%zd}\n", name,
                          source, received);
    send(association, line, (size_t)length, MSG_NOSIGNAL);
    /* Wait until the client ends the association. */
    recv(association, request, sizeof(request), 0);
  }
  close(association);
}

static _Noreturn void answer(const char *name, const char *port, char **addresses, nfds_t count) {
  struct pollfd listeners[count];
  for (nfds_t index = 0; index < count; index++) {
    struct address own = parse(addresses[index], port);
    listeners[index] = (struct pollfd){.fd = open_bound(&own, 0), .events = POLLIN};
    if (listen(listeners[index].fd, 16) != 0) fail("listen");
  }
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (poll(listeners, count, -1) < 0) fail("poll");
    for (nfds_t index = 0; index < count; index++) {
      if (listeners[index].revents != 0) serve(listeners[index].fd, name);
    }
  }
}

/* Waits for an event. Returns 0 when it occurs, otherwise an errno. */
static int wait_for(int descriptor, short event, int timeout_ms) {
  struct pollfd one = {.fd = descriptor, .events = event};
  int count = poll(&one, 1, timeout_ms);
  if (count <= 0) return count == 0 ? ETIMEDOUT : errno;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

/* Sends a byte and prints the answer. Returns an errno if there is no answer. */
static int exchange(int association, const struct address *target, int timeout_ms) {
  char line[4096];
  if (connect(association, (const struct sockaddr *)&target->storage, target->length) != 0 && errno != EINPROGRESS)
    return errno;
  int error = wait_for(association, POLLOUT, timeout_ms);
  if (error == 0 && send(association, "x", 1, MSG_NOSIGNAL) < 0) return errno;
  if (error == 0) error = wait_for(association, POLLIN, timeout_ms);
  if (error != 0) return error;
  ssize_t length = recv(association, line, sizeof(line) - 1, 0);
  if (length < 0) return errno;
  line[length] = '\0';
  fputs(line, stdout);
  return 0;
}

static void ask(const char *text, const char *port, int timeout_ms, const char *from) {
  struct address target = parse(text, port);
  struct address source = strcmp(from, "-") == 0 ? source_towards(&target) : parse(from, "0");
  int association = open_bound(&source, SOCK_NONBLOCK);
  int error = exchange(association, &target, timeout_ms);
  if (error != 0) puts(error == ETIMEDOUT || error == EAGAIN ? "silence" : strerrorname_np(error));
  /* Ends the association with ABORT, so that IPVS and conntrack forget it soon. */
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(association, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(association);
  fflush(stdout);
}

int main(int count, char **arguments) {
  char address[64], port[8], from[64];
  int timeout_ms;
  /* Exits with the thread that started it. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count > 4 && strcmp(arguments[1], "answer") == 0)
    answer(arguments[2], arguments[3], arguments + 4, (nfds_t)count - 4);
  if (count != 2 || strcmp(arguments[1], "ask") != 0) {
    fputs("usage: sctp-station answer NAME PORT ADDRESS... | ask\n", stderr);
    return 2;
  }
  while (scanf("%63s %7s %d %63s", address, port, &timeout_ms, from) == 4) ask(address, port, timeout_ms, from);
  return 0;
}

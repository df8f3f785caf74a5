#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "netlink-socket.h"

int64_t in_ms(int64_t ms) {
  return monotonic_ns() + ms * MS;
}

struct pair open_pair(void) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) == 0);
  int bytes = 4 * 1024 * 1024;
  CHECK(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0);
  return (struct pair){.fd = fds[0], .kernel = fds[1]};
}

void close_pair(struct pair pair) {
  close(pair.fd);
  close(pair.kernel);
}

size_t put_message(uint8_t *at, uint16_t type, uint32_t sequence, size_t payload) {
  struct nlmsghdr header = {
      .nlmsg_len = (uint32_t)(sizeof header + payload), .nlmsg_type = type, .nlmsg_seq = sequence};
  memcpy(at, &header, sizeof header);
  memset(at + sizeof header, 0, payload);
  return header.nlmsg_len;
}

void play(struct pair pair, const void *bytes, size_t length) {
  CHECK_EQUAL(write(pair.kernel, bytes, length), length);
}

void play_message(struct pair pair, uint16_t type, uint32_t sequence, size_t payload) {
  uint8_t *bytes = malloc(sizeof(struct nlmsghdr) + payload);
  CHECK(bytes != NULL);
  play(pair, bytes, put_message(bytes, type, sequence, payload));
  free(bytes);
}

struct exchange exchange_for(uint32_t last_sequence, int64_t timeout_ms) {
  static const uint8_t request[16] = {16};
  return (struct exchange){.request = request,
                           .request_length = sizeof request,
                           .last_sequence = last_sequence,
                           .deadline_ns = in_ms(timeout_ms)};
}

int count_entries(const char *folder) {
  DIR *entries = opendir(folder);
  CHECK(entries != NULL);
  int count = 0;
  while (readdir(entries) != NULL) count++;
  closedir(entries);
  return count - 2;
}

void pause_ms(int ms) {
  struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * MS};
  nanosleep(&pause, NULL);
}

static int threads_at_start;

static void *end_at_once(void *argument) {
  return argument;
}

/* The thread sanitizer starts its own thread together with the driver's first one. */
void count_threads_at_start(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
  pthread_join(thread, NULL);
  threads_at_start = count_entries("/proc/self/task");
}

void wait_for_threads(void) {
  for (int tries = 0; tries < 5000; tries++) {
    if (count_entries("/proc/self/task") == threads_at_start) return;
    pause_ms(1);
  }
  CHECK_EQUAL(count_entries("/proc/self/task"), threads_at_start);
}

static void ring(void *context) {
  const struct owner *owner = context;
  eventfd_write(owner->bell, 1);
}

void start_owner(struct owner *owner) {
  owner->bell = eventfd(0, EFD_CLOEXEC);
  owner->completion_queue = completion_queue_create(ring, owner);
  CHECK(owner->bell >= 0 && owner->completion_queue != NULL);
}

void stop_owner(struct owner *owner) {
  struct completion_queue *queue = owner->completion_queue;
  for (struct delivery *left; (left = completion_queue_take(queue)) != NULL;) delivery_free(left);
  completion_queue_free(owner->completion_queue);
  wait_for_threads();
  close(owner->bell);
}

struct delivery *next_item(struct owner *owner) {
  for (;;) {
    struct delivery *item = completion_queue_take(owner->completion_queue);
    if (item != NULL) return item;
    struct pollfd bell = {.fd = owner->bell, .events = POLLIN};
    CHECK(poll(&bell, 1, 10000) == 1);
    eventfd_t rings;
    CHECK(eventfd_read(owner->bell, &rings) == 0);
  }
}

/* The linker redirects the loop's calls of send(2) to this function (--wrap=send). */
ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);

static atomic_bool is_stalling;
static atomic_int stalled;

void stall_sends(void) {
  is_stalling = true;
}

void wait_for_stalled_send(void) {
  while (stalled == 0) pause_ms(1);
}

void let_sends_go(void) {
  is_stalling = false;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags) {
  stalled++;
  while (is_stalling) pause_ms(1);
  stalled--;
  return __real_send(fd, bytes, length, flags);
}

void run_cases(const struct test_case *cases, size_t count) {
  for (size_t index = 0; index < count; index++) {
    int64_t start = monotonic_ns();
    cases[index].run();
    printf("ok  %5lld ms  %s\n", (long long)(monotonic_ns() - start) / MS, cases[index].name);
    fflush(stdout);
  }
}

/*
 * Shared by all files of the driver: checks that report their location, and sockets that simulate
 * the kernel.
 */
#ifndef CHECK_H
#define CHECK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "receive-loop.h"

/*
 * Exits immediately. A failed case is a defect, and later results would be unreliable.
 */
#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

#define CHECK_EQUAL(actual, expected)                                                      \
  do {                                                                                     \
    long long actual_ = (long long)(actual), expected_ = (long long)(expected);            \
    if (actual_ != expected_) {                                                            \
      fprintf(stderr, "FAILED %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, \
              actual_, expected_);                                                         \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

struct test_case {
  const char *name;
  void (*run)(void);
};

void run_cases(const struct test_case *cases, size_t count);
void run_exchange_cases(void);
void run_kernel_cases(void);
void run_socket_cases(void);
void run_addon_cases(void);
void run_mutations(int rounds);
/*
 * Reads a recording's datagrams (test/captures), which the driver also uses in damaged form.
 * Returns their number.
 */
int load_recording(const char *path);

enum { MS = 1000000 };

/* Returns the deadline `ms` milliseconds from now. */
int64_t in_ms(int64_t ms);

/* A socket pair. The loop receives on `fd` whatever is sent to `kernel`. */
struct pair {
  int fd;
  int kernel;
};
struct pair open_pair(void);
void close_pair(struct pair pair);

/* Writes a message header and `payload` zeros; returns its length. */
size_t put_message(uint8_t *at, uint16_t type, uint32_t sequence, size_t payload);

/* Sends one datagram in the kernel's place. */
void play(struct pair pair, const void *bytes, size_t length);
void play_message(struct pair pair, uint16_t type, uint32_t sequence, size_t payload);

/*
 * Creates an exchange that waits for `last_sequence`. The socket pair does not answer its request.
 */
struct exchange exchange_for(uint32_t last_sequence, int64_t timeout_ms);

/*
 * `count_threads_at_start` records the number of threads. `wait_for_threads` waits until no more
 * than this number are left.
 */
void count_threads_at_start(void);
void wait_for_threads(void);
int count_entries(const char *folder);

/* The owner's side: a completion queue whose doorbell is an eventfd. */
struct owner {
  struct completion_queue *completion_queue;
  int bell;
};
void start_owner(struct owner *owner);
/* Waits for all threads to exit. Memory that is still allocated afterwards is a leak. */
void stop_owner(struct owner *owner);
/* Returns the next item of the completion queue. Waits up to ten seconds. */
struct delivery *next_item(struct owner *owner);

/* Blocks calls of send(2), as a kernel lock would, until they are released. */
void stall_sends(void);
void wait_for_stalled_send(void);
void let_sends_go(void);

void pause_ms(int ms);

#endif

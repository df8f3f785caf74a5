/* What every file of the driver uses: checks that say where they failed, and sockets to play the
 * kernel. */
#ifndef CHECK_H
#define CHECK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "receive-loop.h"

/* Ends the driver at once: a failed case is a defect, and what follows would only be noise. */
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
/* Reads the datagrams of a recording (test/captures) to be damaged too; returns how many. */
int load_recording(const char *path);

enum { MS = 1000000 };

/* A deadline `ms` from now. */
int64_t in_ms(int64_t ms);

/* A socket pair: what is sent into `kernel` is what the loop receives on `fd`. */
struct pair {
  int fd;
  int kernel;
};
struct pair open_pair(void);
void close_pair(struct pair pair);

/* Writes a message header and `payload` zeros; returns its length. */
size_t put_message(uint8_t *at, uint16_t type, uint32_t sequence, size_t payload);

/* Plays one datagram of the kernel. */
void play(struct pair pair, const void *bytes, size_t length);
void play_message(struct pair pair, uint16_t type, uint32_t sequence, size_t payload);

/* A request that the pair swallows, waiting for `last_sequence`. */
struct exchange exchange_for(uint32_t last_sequence, int64_t timeout_ms);

/* Waits until this process has as many threads as when they were counted at its start. */
void count_threads_at_start(void);
void wait_for_threads(void);
int count_entries(const char *folder);

/* The owner's side: a completion queue whose ring is an eventfd. */
struct owner {
  struct completion_queue *completion_queue;
  int bell;
};
void start_owner(struct owner *owner);
/* Waits for every thread, so that whatever still holds memory is a leak. */
void stop_owner(struct owner *owner);
/* What comes out of the completion queue next, waited for up to ten seconds. */
struct delivery *next_item(struct owner *owner);

/* Makes calls of send(2) block, as a kernel lock would, until they are let go. */
void stall_sends(void);
void wait_for_stalled_send(void);
void let_sends_go(void);

void pause_ms(int ms);

#endif

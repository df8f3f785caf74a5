/*
 * One exchange with the kernel over a netlink socket: send a datagram of requests, receive until
 * the last of them is answered. Plain C without Node-API, so that `driver.c` can run it under
 * sanitizers.
 */
#ifndef RECEIVE_LOOP_H
#define RECEIVE_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Offered to each receive, without asking for the length first, which would be a system call more. The
 * kernel sends no larger datagram: pieces of a dump have up to 32 KB, and an error echoes at most one
 * request. A larger one ends the exchange with EMSGSIZE.
 */
#define RECEIVE_BYTES ((size_t)128 * 1024)

/* A call that answers more than this has gone wrong; it ends with EMSGSIZE. */
#define MAX_REPLY_BYTES ((size_t)256 * 1024 * 1024)

/* Datagram after datagram, each starting at a multiple of four. Zero-initialised is empty. */
struct reply_buffer {
  uint8_t *bytes;
  size_t length;
  size_t capacity;
};

enum operation { OPERATION_NONE, OPERATION_SEND, OPERATION_RECEIVE };

struct exchange {
  const uint8_t *request;
  size_t request_length;
  /* Sequence number whose NLMSG_ERROR or NLMSG_DONE ends the exchange. */
  uint32_t last_sequence;
  /* With so many bytes of replies or more it ends before that; 0: never. */
  size_t piece_bytes;
  /*
   * Each message of the request travels as a datagram of its own, once the one before is answered:
   * many dumps, of which a socket carries out one at a time. `last_sequence` is set from them, and a
   * piece ends between two.
   */
  bool one_by_one;
  /* CLOCK_MONOTONIC. */
  int64_t deadline_ns;
  /* Result: 0 or the errno that ended the exchange. */
  int error;
  /* Where it is, and afterwards where `error` came from. Read by other threads while it runs. */
  _Atomic int operation;
  /* Result: everything received, also when `error` is set. */
  struct reply_buffer replies;
};

/* Nanoseconds of CLOCK_MONOTONIC; clock_gettime(2). */
int64_t monotonic_ns(void);

void reply_buffer_free(struct reply_buffer *buffer);

/* Makes room for so many bytes in all. Returns 0 or ENOMEM. */
int reply_buffer_grow(struct reply_buffer *buffer, size_t needed);

/*
 * Runs one exchange to its end, or to the end of a piece: the next exchange, with an empty request,
 * goes on with it. `wake_fd` becoming readable ends a wait with ECANCELED; -1 for
 * none. The caller must be the only user of `fd`.
 */
void exchange_run(struct exchange *exchange, int fd, int wake_fd);

/*
 * Appends the next queued datagram to `replies`; recvmsg(2). Returns 0, or an errno: EAGAIN when
 * nothing is queued, ENOBUFS when the kernel dropped something (what is queued stays readable). A
 * datagram that does not come from the kernel is dropped: 0, and `replies` has not grown.
 */
int receive_datagram(int fd, struct reply_buffer *replies);

/* Waits for `events` on `fd`; poll(2). Returns 0, ETIMEDOUT, ECANCELED (woken), or another errno.
 */
int wait_for(int fd, short events, int wake_fd, int64_t deadline_ns);

#endif

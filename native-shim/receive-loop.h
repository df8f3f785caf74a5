/*
 * One exchange with the kernel over a netlink socket: sends a datagram of requests and receives
 * until the last request is answered. Plain C without Node-API, so that `test/shim/driver/` can run
 * it under sanitizers.
 */
#ifndef RECEIVE_LOOP_H
#define RECEIVE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Buffer size for each receive. Asking for the length first would cost an extra system call. The
 * kernel sends no larger datagrams: dump pieces are up to 32 KB long, and an error echoes at most
 * one request. A larger datagram ends the exchange with EMSGSIZE.
 */
#define RECEIVE_BYTES ((size_t)128 * 1024)

/* Maximum size of all replies to a call. A call that receives more ends with EMSGSIZE. */
#define MAX_REPLY_BYTES ((size_t)256 * 1024 * 1024)

/*
 * Concatenated datagrams, each starting at a multiple of four. A zero-initialized buffer is empty.
 */
struct reply_buffer {
  uint8_t *bytes;
  size_t length;
  size_t capacity;
};

struct exchange {
  const uint8_t *request;
  size_t request_length;
  /* Sequence number whose NLMSG_ERROR or NLMSG_DONE ends the exchange. */
  uint32_t last_sequence;
  /*
   * The exchange ends early when this many bytes of replies have been received. 0 means no limit.
   */
  size_t piece_bytes;
  /*
   * Sends each message of the request as a separate datagram, after the previous one has been
   * answered. Used for many dumps, because a socket can only run one dump at a time.
   * `last_sequence` is taken from the message that was sent last, and the exchange ends early only
   * after all replies to a message.
   */
  bool one_by_one;
  /* Absolute deadline on CLOCK_MONOTONIC, in nanoseconds. */
  int64_t deadline_ns;
  /* Result: 0 or the errno that ended the exchange. */
  int error;
  /* Result: everything received, even if `error` is set. */
  struct reply_buffer replies;
};

/* Current time of CLOCK_MONOTONIC in nanoseconds; clock_gettime(2). */
int64_t monotonic_ns(void);

void reply_buffer_free(struct reply_buffer *buffer);

/* Grows the capacity to `needed` bytes. Returns 0 or ENOMEM. */
int reply_buffer_grow(struct reply_buffer *buffer, size_t needed);

/*
 * Runs one exchange to its end, or to the end of a piece. The next exchange, with an empty request,
 * then continues it. If `wake_fd` becomes readable, a wait ends with ECANCELED; -1 means none. The
 * caller must be the only user of `fd`.
 */
void exchange_run(struct exchange *exchange, int fd, int wake_fd);

/*
 * Appends the next queued datagram to `replies`; recvmsg(2). Returns 0 or an errno: EAGAIN if
 * nothing is queued, ENOBUFS if the kernel dropped something (queued datagrams can still be read).
 * Drops a datagram from a different sender; in that case, returns 0 and leaves `replies` unchanged.
 */
int receive_datagram(int fd, struct reply_buffer *replies);

/*
 * Waits for `events` on `fd`; poll(2). Returns 0, ETIMEDOUT, ECANCELED (`wake_fd` is readable),
 * or another errno.
 */
int wait_for(int fd, short events, int wake_fd, int64_t deadline_ns);

#endif

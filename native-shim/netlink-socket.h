/*
 * A netlink socket, the queue of calls on it, and the thread that carries them out. Plain C without
 * Node-API: what is finished goes to a completion queue, whose owner empties it on a thread of its own.
 *
 * Why a thread per socket and not libuv's pool: a request can be stuck inside send(2) for as long
 * as someone holds a kernel lock, and nothing can interrupt it. Four such requests would stop all
 * file and name-service work of the process. Here only the calls of the same socket wait. The
 * thread starts with the first call or watch and ends with the socket.
 *
 * Giving up: a call past its deadline is abandoned by the owner (`netlink_socket_abandon`), who
 * settles it with ETIMEDOUT although the thread may still be stuck with it. The thread owns that
 * call's memory and frees it when the kernel lets go. Until then the socket is poisoned: later
 * calls wait in the queue and end with ETIMEDOUT at their own deadlines, never sent. When the
 * kernel lets go it works again. Replies to a call that ended early may be left in the kernel's
 * queue; they come before those of the next call and are distinguished by their sequence numbers.
 *
 * Who owns what: the functions below are for one thread, the owner's. Only the completion queue and the
 * fields under `lock` are shared with the socket's thread. Locks are taken in the order socket,
 * completion queue.
 */
#ifndef NETLINK_SOCKET_H
#define NETLINK_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "receive-loop.h"

struct netlink_socket;
struct delivery;

/* Where threads put what is finished, and where the owner takes it from. */
struct completion_queue;

/*
 * Makes a completion queue; `ring(context)` is called, on any thread, when it is no longer empty. NULL: ENOMEM.
 */
struct completion_queue *completion_queue_create(void (*ring)(void *context), void *context);

/* Frees it. Close all sockets and take what is left first. */
void completion_queue_free(struct completion_queue *queue);

/* Takes the oldest delivery; NULL when there is none. */
struct delivery *completion_queue_take(struct completion_queue *queue);

/* Bytes and groups as netlink(7) has them; 0 or false leaves the kernel's default. */
struct open_options {
  int receive_buffer_bytes;
  bool extended_ack;
  bool cap_ack;
  bool strict_check;
  const uint32_t *groups;
  size_t group_count;
};

/*
 * socket(2), setsockopt(2), bind(2) on the calling thread: the socket belongs to that thread's
 * network namespace. Returns NULL with errno and the name of the call that failed.
 */
struct netlink_socket *netlink_socket_open(int protocol, const struct open_options *options,
                                           struct completion_queue *completion_queue,
                                           const char **failed);

/* A finished call, or something that a watched socket received: what comes through the completion queue. */
struct delivery {
  /* In the socket's queue, then in the completion queue. */
  struct delivery *next;
  struct netlink_socket *socket;
  /* Whatever the owner gave with the call or the watch. */
  void *context;
  bool is_watched;
  /* `error`, `operation` and `replies` are the result; the rest is the call. */
  struct exchange exchange;
  /* The request is a copy: the thread may still read it after the owner has given up. */
  uint8_t request[];
};

void delivery_free(struct delivery *delivery);

/* One call: `length` bytes, of which a copy is made, and the rest as in `struct exchange`. */
struct call {
  const uint8_t *request;
  size_t request_length;
  uint32_t last_sequence;
  size_t piece_bytes;
  bool one_by_one;
  int64_t deadline_ns;
  void *context;
};

/*
 * Queues a call; its delivery comes through the completion queue unless it is abandoned. Returns 0, or an
 * errno and nothing is delivered: EBADF closed, EBUSY watched, EAGAIN or ENOMEM no thread or
 * memory.
 */
int netlink_socket_submit(struct netlink_socket *socket, const struct call *call);

/*
 * Delivers every datagram with `context` from now on. At most 64 wait in the completion queue, then the
 * kernel's receive buffer takes the rest and ENOBUFS says when it overflowed. An error other than
 * ENOBUFS ends the watch. Returns 0 or an errno as `netlink_socket_submit`.
 */
int netlink_socket_watch(struct netlink_socket *socket, void *context);

/* A call that was given up: the owner's context and where it was when that happened. */
struct abandoned {
  void *context;
  enum operation operation;
};

/*
 * Takes back one call whose deadline is not later than `deadline_ns` and that is not finished;
 * INT64_MAX takes any. Returns false when there is none.
 */
bool netlink_socket_abandon(struct netlink_socket *socket, int64_t deadline_ns,
                            struct abandoned *abandoned);

/* True after `netlink_socket_close`. */
bool netlink_socket_is_closed(struct netlink_socket *socket);

/*
 * Ends all use and gives back the owner's reference. Abandon the calls first. The descriptor is
 * closed at once, or by the thread as soon as it is done with it.
 */
void netlink_socket_close(struct netlink_socket *socket);

#endif

/*
 * A netlink socket, the queue of calls on it, and the thread that executes them. Plain C without
 * Node-API: finished calls go to a completion queue, and the owner of that queue takes them on its
 * own thread.
 *
 * Why a thread per socket instead of libuv's pool: a request can block inside send(2) for as long
 * as a kernel lock is held, and nothing can interrupt it. Four such requests would block all of the
 * process's file and name-service work. With a thread per socket, only calls on the same socket
 * wait. The thread starts with the first call or watch and ends with the socket.
 *
 * Timeouts: the owner stops waiting for a call past its deadline, even if the thread is still
 * blocked in it, and ignores its delivery. Until the system call returns, the socket is unusable.
 * Later calls wait in the queue. When the system call returns, the socket works again, but calls
 * whose deadline has passed are not sent. Replies to a call that ended early may remain in the
 * kernel's queue. They precede the replies to the next call and are distinguished by their sequence
 * numbers.
 *
 * Ownership: only the owner's thread may call the functions below. Only the completion queue and
 * the fields under `lock` are shared with the socket's thread. Lock order: socket, then completion
 * queue.
 */
#ifndef NETLINK_SOCKET_H
#define NETLINK_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "receive-loop.h"

struct netlink_socket;
struct delivery;

/* Threads put finished calls and watched datagrams here; the owner takes them. */
struct completion_queue;

/*
 * Creates a completion queue. `ring(context)` is called, on any thread, when the queue becomes
 * non-empty. Returns NULL on ENOMEM.
 */
struct completion_queue *completion_queue_create(void (*ring)(void *context), void *context);

/* Frees the queue. The caller must first close all sockets and take the remaining deliveries. */
void completion_queue_free(struct completion_queue *queue);

/* Takes the oldest delivery; NULL if the queue is empty. */
struct delivery *completion_queue_take(struct completion_queue *queue);

/* Options and groups as in netlink(7). 0 or false keeps the kernel's default. */
struct open_options {
  int receive_buffer_bytes;
  bool extended_ack;
  bool cap_ack;
  bool strict_check;
  const uint32_t *groups;
  size_t group_count;
  /* Passed to the owner with each delivery. */
  void *context;
};

/*
 * Opens, configures and binds a socket on the calling thread: socket(2), setsockopt(2), bind(2).
 * The socket belongs to that thread's network namespace. On failure, returns NULL, sets errno, and
 * sets `failed` to the name of the failed call.
 */
struct netlink_socket *netlink_socket_open(int protocol, const struct open_options *options,
                                           struct completion_queue *completion_queue,
                                           const char **failed);

/* A finished call or a watched datagram, delivered through the completion queue. */
struct delivery {
  /* Link in the socket's queue, then in the completion queue. */
  struct delivery *next;
  struct netlink_socket *socket;
  void *context;
  /* The call's number, or 0 for a watched datagram. */
  int call;
  /* `error` and `replies` are the result. The other fields describe the call. */
  struct exchange exchange;
  /* A copy of the request, which the thread may still read after the call's deadline. */
  uint8_t request[];
};

void delivery_free(struct delivery *delivery);

/* Arguments of a call. The request is copied; the other fields are those of `struct exchange`. */
struct call {
  /* Not 0. */
  int id;
  const uint8_t *request;
  size_t request_length;
  uint32_t last_sequence;
  size_t piece_bytes;
  bool one_by_one;
  int64_t deadline_ns;
};

/*
 * Queues a call. Its delivery arrives through the completion queue unless the socket is closed
 * first. Returns 0, or an errno, in which case nothing is delivered: EBADF if closed, EBUSY if
 * watched, EAGAIN or ENOMEM if there is no thread or memory.
 */
int netlink_socket_submit(struct netlink_socket *socket, const struct call *call);

/*
 * Delivers every datagram from now on. At most 64 datagrams wait in the completion queue. Further
 * datagrams stay in the kernel's receive buffer, and ENOBUFS reports an overflow of that buffer. An
 * error other than ENOBUFS ends the watch. Returns 0 or an errno, like `netlink_socket_submit`.
 */
int netlink_socket_watch(struct netlink_socket *socket);

/* True after `netlink_socket_close`. */
bool netlink_socket_is_closed(struct netlink_socket *socket);

/*
 * Closes the socket and releases the owner's reference. Nothing is put into the completion queue
 * afterwards. The descriptor is closed immediately or, if the thread is using it, by the thread as
 * soon as possible.
 */
void netlink_socket_close(struct netlink_socket *socket);

#endif

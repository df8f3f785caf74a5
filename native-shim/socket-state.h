/*
 * Definitions shared by the owner's side of a socket (netlink-socket.c) and its thread
 * (socket-thread.c).
 */
#ifndef SOCKET_STATE_H
#define SOCKET_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "netlink-socket.h"

struct netlink_socket {
  pthread_mutex_t lock;
  /* Signaled when any of the fields below changes. */
  pthread_cond_t changed;
  atomic_int references;
  struct completion_queue *completion_queue;
  int fd;
  /*
   * Becomes readable when the socket is closed, which ends a wait in poll(2); -1 without a
   * thread.
   */
  int wake_fd;
  bool has_thread;
  bool is_closed;
  bool is_watching;
  void *watch_context;
  size_t watched_in_queue;
  struct delivery *first, *last;
  /* The call that the thread is executing; its context is NULL if the call has been abandoned. */
  struct delivery *running;
};

/* The owner, the thread and every delivery each hold a reference. */
struct netlink_socket *socket_retain(struct netlink_socket *socket);
void socket_release(struct netlink_socket *socket);

/*
 * Makes a delivery that holds a reference to `socket`; its request is zeroed. Returns NULL if
 * there is no memory.
 */
struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length);

/*
 * Adds a delivery, and rings if the queue was empty. After a ring the owner takes deliveries
 * until the queue is empty.
 */
void completion_queue_put(struct completion_queue *queue, struct delivery *delivery);

/*
 * Starts the socket's thread unless it is running. Returns 0 or an errno. The caller holds the
 * lock.
 */
int ensure_thread(struct netlink_socket *socket);

#endif

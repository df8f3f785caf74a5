/*
 * What the owner's side of a socket (netlink-socket.c) and its thread (socket-thread.c) share.
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
  /* Signalled when any of the fields below changes. */
  pthread_cond_t changed;
  atomic_int references;
  struct completion_queue *completion_queue;
  int fd;
  /* Readable once the socket is closed, so that a wait in poll(2) ends; -1 without a thread. */
  int wake_fd;
  bool has_thread;
  bool is_closed;
  bool is_watching;
  void *watch_context;
  size_t watched_in_queue;
  struct delivery *first, *last;
  /* The call that the thread is carrying out; its context is NULL once it is abandoned. */
  struct delivery *running;
};

/* The owner, the thread and every delivery hold a reference. */
struct netlink_socket *socket_retain(struct netlink_socket *socket);
void socket_release(struct netlink_socket *socket);

/* Makes one that keeps `socket` alive; its request is zeroed. NULL: no memory. */
struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length);

/* Adds a delivery and rings if it is the first: the owner takes until nothing is left. */
void completion_queue_put(struct completion_queue *queue, struct delivery *delivery);

/* Starts the socket's thread unless it runs. Returns 0 or an errno. The lock is held. */
int ensure_thread(struct netlink_socket *socket);

#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "socket-state.h"

enum { MAX_WATCHED_IN_QUEUE = 64 };

/* Enough for everything that runs on the thread; musl's default is of the same order. */
enum { STACK_BYTES = 256 * 1024 };

/*
 * Puts a delivery into the completion queue unless its call was abandoned or the socket is
 * closed. Enters and leaves with the lock held, and puts the delivery while holding it: a call is
 * therefore always found either in the socket or in the completion queue, and the owner of a
 * closed socket can be freed.
 */
static void deliver(struct netlink_socket *socket, struct delivery *delivery) {
  if (delivery->context != NULL && !socket->is_closed) {
    completion_queue_put(socket->completion_queue, delivery);
    return;
  }
  pthread_mutex_unlock(&socket->lock);
  delivery_free(delivery);
  pthread_mutex_lock(&socket->lock);
}

/*
 * Moves the replies from `received`, the thread's own large buffer, to a buffer of the right
 * size, because results may wait long for their owner. Small replies, the usual case, are copied;
 * large ones take over the buffer.
 */
static int move_bytes(struct reply_buffer *received, struct reply_buffer *result) {
  if (received->length == 0) return 0;
  if (received->length > received->capacity / 2) {
    *result = *received;
    *received = (struct reply_buffer){0};
    return 0;
  }
  result->bytes = malloc(received->length);
  if (result->bytes == NULL) return ENOMEM;
  memcpy(result->bytes, received->bytes, received->length);
  result->length = result->capacity = received->length;
  received->length = 0;
  return 0;
}

static void carry_out(struct netlink_socket *socket, struct exchange *exchange,
                      struct reply_buffer *received) {
  received->length = 0;
  exchange->replies = *received;
  exchange_run(exchange, socket->fd, socket->wake_fd);
  *received = exchange->replies;
  exchange->replies = (struct reply_buffer){0};
  int error = move_bytes(received, &exchange->replies);
  if (error != 0) exchange->error = error;
}

/* Executes the oldest queued call. Enters and leaves with the lock held. */
static void run_next(struct netlink_socket *socket, struct reply_buffer *received) {
  struct delivery *call = socket->first;
  socket->first = call->next;
  socket->running = call;
  pthread_mutex_unlock(&socket->lock);
  carry_out(socket, &call->exchange, received);
  pthread_mutex_lock(&socket->lock);
  socket->running = NULL;
  deliver(socket, call);
}

/*
 * Enters and leaves with the lock held. If there is no memory for a delivery, it cannot be
 * reported either, and the event is lost as if the kernel had dropped it.
 */
static void deliver_watched(struct netlink_socket *socket, int error,
                            struct reply_buffer *received) {
  struct delivery *delivery = delivery_create(socket, 0);
  if (delivery == NULL) return;
  delivery->is_watched = true;
  delivery->context = socket->watch_context;
  delivery->exchange.error = error;
  if (move_bytes(received, &delivery->exchange.replies) != 0) delivery->exchange.error = ENOBUFS;
  socket->watched_in_queue++;
  deliver(socket, delivery);
}

/* Receives one datagram, or waits for one. Enters and leaves with the lock held. */
static void watch_once(struct netlink_socket *socket, struct reply_buffer *received) {
  pthread_mutex_unlock(&socket->lock);
  received->length = 0;
  int error = receive_datagram(socket->fd, received);
  if (error == EAGAIN) error = wait_for(socket->fd, POLLIN, socket->wake_fd, INT64_MAX);
  pthread_mutex_lock(&socket->lock);
  bool is_quiet = error == 0 && received->length == 0;
  if (is_quiet || error == ECANCELED || error == ETIMEDOUT) return;
  if (error != 0 && error != ENOBUFS) socket->is_watching = false;
  deliver_watched(socket, error, received);
}

static void *thread_main(void *argument) {
  struct netlink_socket *socket = argument;
  struct reply_buffer received = {0};
  pthread_mutex_lock(&socket->lock);
  while (!socket->is_closed) {
    bool may_watch = socket->is_watching && socket->watched_in_queue < MAX_WATCHED_IN_QUEUE;
    if (socket->first != NULL) run_next(socket, &received);
    else if (may_watch) watch_once(socket, &received);
    else pthread_cond_wait(&socket->changed, &socket->lock);
  }
  pthread_mutex_unlock(&socket->lock);
  close(socket->fd);
  close(socket->wake_fd);
  reply_buffer_free(&received);
  socket_release(socket);
  return NULL;
}

/*
 * Starts a detached thread with all signals blocked, because the main thread handles signals;
 * pthread_create(3). The thread is in the caller's network namespace. Returns 0 or an errno.
 */
static int start_thread(struct netlink_socket *socket) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, thread_main, socket);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

int ensure_thread(struct netlink_socket *socket) {
  if (socket->has_thread) return 0;
  socket->wake_fd = eventfd(0, EFD_CLOEXEC);
  if (socket->wake_fd < 0) return errno;
  atomic_fetch_add(&socket->references, 1);
  int error = start_thread(socket);
  if (error == 0) {
    socket->has_thread = true;
    return 0;
  }
  atomic_fetch_sub(&socket->references, 1);
  close(socket->wake_fd);
  socket->wake_fd = -1;
  return error;
}

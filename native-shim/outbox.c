#include "outbox.h"

#include <pthread.h>
#include <stdlib.h>

#include "socket-state.h"

struct outbox {
  pthread_mutex_t lock;
  struct delivery *first, *last;
  void (*ring)(void *context);
  void *context;
};

struct outbox *outbox_create(void (*ring)(void *context), void *context) {
  struct outbox *outbox = calloc(1, sizeof *outbox);
  if (outbox == NULL) return NULL;
  pthread_mutex_init(&outbox->lock, NULL);
  outbox->ring = ring;
  outbox->context = context;
  return outbox;
}

void outbox_free(struct outbox *outbox) {
  for (struct delivery *left; (left = outbox_take(outbox)) != NULL;) delivery_free(left);
  pthread_mutex_destroy(&outbox->lock);
  free(outbox);
}

/* Rings for the first delivery only: the owner takes until nothing is left. */
void outbox_put(struct outbox *outbox, struct delivery *delivery) {
  delivery->next = NULL;
  pthread_mutex_lock(&outbox->lock);
  bool was_empty = outbox->first == NULL;
  if (was_empty) outbox->first = delivery;
  else outbox->last->next = delivery;
  outbox->last = delivery;
  pthread_mutex_unlock(&outbox->lock);
  if (was_empty) outbox->ring(outbox->context);
}

struct delivery *outbox_take(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  struct delivery *delivery = outbox->first;
  if (delivery != NULL) outbox->first = delivery->next;
  pthread_mutex_unlock(&outbox->lock);
  return delivery;
}

struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length) {
  struct delivery *delivery = calloc(1, sizeof *delivery + request_length);
  if (delivery == NULL) return NULL;
  delivery->socket = socket_retain(socket);
  return delivery;
}

void delivery_free(struct delivery *delivery) {
  struct netlink_socket *socket = delivery->socket;
  if (delivery->is_watched) {
    pthread_mutex_lock(&socket->lock);
    socket->watched_in_outbox--;
    pthread_cond_broadcast(&socket->changed);
    pthread_mutex_unlock(&socket->lock);
  }
  reply_buffer_free(&delivery->exchange.replies);
  free(delivery);
  socket_release(socket);
}

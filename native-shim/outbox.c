#include "outbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct outbox {
  pthread_mutex_t lock;
  struct outbox_item *first, *last;
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
  pthread_mutex_destroy(&outbox->lock);
  free(outbox);
}

/* Rings for the first item only: the owner takes until nothing is left. */
void outbox_put(struct outbox *outbox, struct outbox_item *item) {
  item->next = NULL;
  pthread_mutex_lock(&outbox->lock);
  bool was_empty = outbox->first == NULL;
  if (was_empty) outbox->first = item;
  else outbox->last->next = item;
  outbox->last = item;
  pthread_mutex_unlock(&outbox->lock);
  if (was_empty) outbox->ring(outbox->context);
}

struct outbox_item *outbox_take(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  struct outbox_item *item = outbox->first;
  if (item != NULL) outbox->first = item->next;
  pthread_mutex_unlock(&outbox->lock);
  return item;
}

#include "completion-queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct completion_queue {
  pthread_mutex_t lock;
  struct completion_queue_item *first, *last;
  void (*ring)(void *context);
  void *context;
};

struct completion_queue *completion_queue_create(void (*ring)(void *context), void *context) {
  struct completion_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) return NULL;
  pthread_mutex_init(&queue->lock, NULL);
  queue->ring = ring;
  queue->context = context;
  return queue;
}

void completion_queue_free(struct completion_queue *queue) {
  pthread_mutex_destroy(&queue->lock);
  free(queue);
}

/* Rings for the first item only: the owner takes until nothing is left. */
void completion_queue_put(struct completion_queue *queue, struct completion_queue_item *item) {
  item->next = NULL;
  pthread_mutex_lock(&queue->lock);
  bool was_empty = queue->first == NULL;
  if (was_empty) queue->first = item;
  else queue->last->next = item;
  queue->last = item;
  pthread_mutex_unlock(&queue->lock);
  if (was_empty) queue->ring(queue->context);
}

struct completion_queue_item *completion_queue_take(struct completion_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  struct completion_queue_item *item = queue->first;
  if (item != NULL) queue->first = item->next;
  pthread_mutex_unlock(&queue->lock);
  return item;
}

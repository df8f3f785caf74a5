/*
 * Where threads put what is finished, and where the owner takes it from.
 */
#ifndef COMPLETION_QUEUE_H
#define COMPLETION_QUEUE_H

struct completion_queue;

/* The first member of a `struct delivery`. */
struct completion_queue_item {
  struct completion_queue_item *next;
};

/* Makes a completion queue; `ring(context)` is called, on any thread, when it is no longer empty. NULL:
 * ENOMEM. */
struct completion_queue *completion_queue_create(void (*ring)(void *context), void *context);

/* Frees it. Close all sockets and take what is left first. */
void completion_queue_free(struct completion_queue *queue);

/* Adds an item and rings if it is the first. For who knows that the owner still wants it. */
void completion_queue_put(struct completion_queue *queue, struct completion_queue_item *item);

/* Takes the oldest item; NULL when there is none. */
struct completion_queue_item *completion_queue_take(struct completion_queue *queue);

#endif

/*
 * Where threads put what is finished, and where the owner takes it from.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

struct outbox;

/* The first member of a `struct delivery`. */
struct outbox_item {
  struct outbox_item *next;
};

/* Makes an outbox; `ring(context)` is called, on any thread, when it is no longer empty. NULL:
 * ENOMEM. */
struct outbox *outbox_create(void (*ring)(void *context), void *context);

/* Frees it. Close all sockets and take what is left first. */
void outbox_free(struct outbox *outbox);

/* Adds an item and rings if it is the first. For who knows that the owner still wants it. */
void outbox_put(struct outbox *outbox, struct outbox_item *item);

/* Takes the oldest item; NULL when there is none. */
struct outbox_item *outbox_take(struct outbox *outbox);

#endif

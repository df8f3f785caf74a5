/*
 * Where a socket's thread puts what is finished, and where the owner of the sockets takes it from.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "receive-loop.h"

struct netlink_socket;
struct outbox;

/* A finished call, or something that a watched socket received. */
struct delivery {
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

/* Makes an outbox; `ring(context)` is called, on any thread, when it is no longer empty. NULL:
 * ENOMEM. */
struct outbox *outbox_create(void (*ring)(void *context), void *context);

/* Frees it with what is left in it. Close all sockets first: a closed one puts nothing any more. */
void outbox_free(struct outbox *outbox);

/* Adds a delivery and rings if it is the first. For the socket's thread, its socket locked and
 * open. */
void outbox_put(struct outbox *outbox, struct delivery *delivery);

/* Takes the oldest delivery; NULL when there is none. To be freed with `delivery_free`. */
struct delivery *outbox_take(struct outbox *outbox);

/* Makes one that keeps `socket` alive; its request is zeroed. NULL: no memory. */
struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length);
void delivery_free(struct delivery *delivery);

#endif

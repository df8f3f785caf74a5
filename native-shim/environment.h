/*
 * The state of one JavaScript environment (main thread, or a worker): its open sockets, the calls
 * it waits for, and how what is finished reaches it. Nothing is static.
 *
 * The completion queue rings a thread-safe function that carries no data: what is finished is taken from the
 * completion queue, so nothing is lost or freed twice when an environment ends in between. The thread-safe
 * function does not keep the event loop alive by itself; a pending call does, through the timer
 * that `index.ts` sets for its deadline.
 */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#define NAPI_VERSION 8
#include <node_api.h>

#include "netlink-socket.h"

struct environment {
  napi_env env;
  struct completion_queue *completion_queue;
  napi_threadsafe_function wake_up;
  /* All that have not been closed. */
  struct handle *handles;
};

/* What a SocketHandle object wraps. */
struct handle {
  struct environment *environment;
  struct handle *previous, *next;
  /* NULL once closed. */
  struct netlink_socket *socket;
  /* A watch keeps its handle from being collected; both NULL without one. */
  napi_ref watch_callback;
  napi_ref watch_self;
};

/* A call that JavaScript waits for; it keeps its handle from being collected. */
struct pending {
  napi_ref callback;
  napi_ref handle;
};

/*
 * Calls back with each datagram from now on; `self` is the handle's object. Returns 0, or an errno as
 * `netlink_socket_watch`.
 */
int handle_watch(napi_env env, struct handle *handle, napi_value self, napi_value callback);

/* Makes the state of `env` and registers its end; NULL: no memory. */
struct environment *start_environment(napi_env env);

/* Makes the object that stands for `socket`; NULL with an exception, and the socket is closed. */
napi_value wrap_socket(napi_env env, struct environment *environment,
                       struct netlink_socket *socket);

/* The handle that `wrap_socket` made; throws and returns NULL when it is none. */
struct handle *read_handle(napi_env env, napi_value value);

/*
 * Ends the pending calls with EBADF, closes the socket and forgets the watch. The handle counts as
 * closed before the first callback runs. Closing twice is fine.
 */
void handle_close(napi_env env, struct handle *handle);

/* Makes the references that a pending call holds; NULL with an exception. */
struct pending *make_pending(napi_env env, napi_value callback, napi_value handle);
void pending_free(napi_env env, struct pending *pending);

/* Settles with `error` every unfinished call whose deadline is not later than `deadline_ns`. */
void give_up(napi_env env, struct netlink_socket *socket, int64_t deadline_ns, int error);

/* Hands over every finished call, and a fair share of what was watched; the rest later. */
void hand_over_all(napi_env env, struct environment *environment);

#endif

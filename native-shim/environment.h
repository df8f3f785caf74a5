/*
 * The state of one JavaScript environment (main thread or worker): its open sockets, its pending
 * calls, and how results reach it. There is no static state.
 *
 * The completion queue rings a thread-safe function that carries no data. Results are taken from
 * the completion queue, so nothing is lost or freed twice if an environment ends in between. The
 * thread-safe function does not keep the event loop alive. A pending call does, through the timer
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
  /* All handles that have not been closed. */
  struct handle *handles;
};

/* The native object wrapped by a SocketHandle. */
struct handle {
  struct environment *environment;
  struct handle *previous, *next;
  /* NULL if closed. */
  struct netlink_socket *socket;
  /* A watch keeps its handle from being garbage collected; both are NULL without a watch. */
  napi_ref watch_callback;
  napi_ref watch_self;
};

/* A call that JavaScript awaits; it keeps its handle from being garbage collected. */
struct pending {
  napi_ref callback;
  napi_ref handle;
};

/*
 * Calls back with each datagram from now on; `self` is the SocketHandle. Returns 0 or an errno,
 * like `netlink_socket_watch`.
 */
int handle_watch(napi_env env, struct handle *handle, napi_value self, napi_value callback);

/*
 * Makes the state of `env` and registers `end_environment` as its clean-up hook. Returns NULL if
 * there is no memory.
 */
struct environment *start_environment(napi_env env);

/*
 * Makes the SocketHandle for `socket`. On failure it closes the socket and returns NULL with a
 * pending exception.
 */
napi_value wrap_socket(napi_env env, struct environment *environment,
                       struct netlink_socket *socket);

/*
 * Returns the handle that `wrap_socket` made. Throws and returns NULL if `value` is not such a
 * handle.
 */
struct handle *read_handle(napi_env env, napi_value value);

/*
 * Ends the pending calls with EBADF, closes the socket and ends the watch. The handle is already
 * closed when the first callback runs. Closing twice is safe.
 */
void handle_close(napi_env env, struct handle *handle);

/*
 * Makes the references that a pending call owns. Returns NULL with a pending exception on
 * failure.
 */
struct pending *make_pending(napi_env env, napi_value callback, napi_value handle);
void pending_free(napi_env env, struct pending *pending);

/* Settles with `error` every unfinished call whose deadline is not later than `deadline_ns`. */
void give_up(napi_env env, struct netlink_socket *socket, int64_t deadline_ns, int error);

/*
 * Delivers every finished call and a limited number of watched datagrams; the remaining ones are
 * delivered later.
 */
void hand_over_all(napi_env env, struct environment *environment);

#endif

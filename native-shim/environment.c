#include "environment.h"

#include <errno.h>
#include <stdlib.h>

#include "js-values.h"

/*
 * Maximum number of watched datagrams delivered per ring, so that a flood of multicast messages
 * does not starve other work.
 */
enum { WATCHED_PER_RING = 256 };

static const napi_type_tag handle_tag = {0x6b7562652d697076, 0x6e65746c696e6b31};

static void drop_reference(napi_env env, napi_ref *reference) {
  if (*reference != NULL) napi_delete_reference(env, *reference);
  *reference = NULL;
}

void pending_free(napi_env env, struct pending *pending) {
  drop_reference(env, &pending->callback);
  drop_reference(env, &pending->handle);
  free(pending);
}

struct pending *make_pending(napi_env env, napi_value callback, napi_value handle) {
  napi_valuetype type = napi_undefined;
  napi_typeof(env, callback, &type);
  if (type != napi_function) {
    throw_type_error(env, "onResult must be a function");
    return NULL;
  }
  struct pending *pending = calloc(1, sizeof *pending);
  if (pending == NULL) {
    throw_errno(env, "send to netlink socket", ENOMEM, "allocate");
    return NULL;
  }
  if (napi_create_reference(env, callback, 1, &pending->callback) == napi_ok &&
      napi_create_reference(env, handle, 1, &pending->handle) == napi_ok)
    return pending;
  pending_free(env, pending);
  throw_errno(env, "send to netlink socket", ENOMEM, "allocate");
  return NULL;
}

/*
 * An exception thrown by the callback is reported as uncaught and does not propagate to our
 * caller.
 */
static void call_back(napi_env env, napi_value callback, size_t count,
                      const napi_value *arguments) {
  if (callback == NULL) return;
  napi_status status = napi_call_function(env, undefined(env), callback, count, arguments, NULL);
  if (status != napi_pending_exception) return;
  napi_value thrown;
  if (napi_get_and_clear_last_exception(env, &thrown) == napi_ok) napi_fatal_exception(env, thrown);
}

/*
 * Clears a pending exception. A failed allocation may have thrown one, and JavaScript cannot be
 * called until it is cleared.
 */
static void drop_exception(napi_env env) {
  napi_value thrown;
  napi_get_and_clear_last_exception(env, &thrown);
}

/* Calls back without a result if there is no memory for the result. */
static void settle(napi_env env, struct pending *pending, int error,
                   const struct reply_buffer *replies) {
  napi_value callback = NULL;
  napi_get_reference_value(env, pending->callback, &callback);
  pending_free(env, pending);
  napi_value result = make_result(env, error, replies);
  if (result == NULL) drop_exception(env);
  call_back(env, callback, result == NULL ? 0 : 1, &result);
}

/*
 * Delivers a watched datagram. Drops it if the socket has been closed. Reports ENOBUFS if there
 * is no memory for it.
 */
static void hand_over_watched(napi_env env, const struct delivery *delivery) {
  if (netlink_socket_is_closed(delivery->socket)) return;
  const struct handle *handle = delivery->context;
  napi_value callback = NULL;
  napi_value arguments[2];
  napi_get_reference_value(env, handle->watch_callback, &callback);
  arguments[1] = copy_bytes(env, &delivery->exchange.replies);
  bool is_lost = arguments[1] == NULL;
  if (is_lost) drop_exception(env);
  int error = is_lost ? ENOBUFS : delivery->exchange.error;
  if (napi_create_int32(env, error, &arguments[0]) != napi_ok) return;
  call_back(env, callback, is_lost ? 1 : 2, arguments);
}

static void hand_over_delivery(napi_env env, struct delivery *delivery) {
  struct exchange *exchange = &delivery->exchange;
  if (delivery->is_watched) hand_over_watched(env, delivery);
  else settle(env, delivery->context, exchange->error, &exchange->replies);
  delivery_free(delivery);
}

/* Returns true for a watched datagram. */
static bool hand_over(napi_env env, struct delivery *delivery) {
  napi_handle_scope scope;
  bool is_watched = delivery->is_watched;
  napi_open_handle_scope(env, &scope);
  hand_over_delivery(env, delivery);
  napi_close_handle_scope(env, scope);
  return is_watched;
}

/* Called on any thread. The environment exists for as long as a socket is open. */
static void ring(void *context) {
  struct environment *environment = context;
  napi_call_threadsafe_function(environment->wake_up, NULL, napi_tsfn_nonblocking);
}

void hand_over_all(napi_env env, struct environment *environment) {
  for (int watched = 0; watched < WATCHED_PER_RING;) {
    struct delivery *delivery = completion_queue_take(environment->completion_queue);
    if (delivery == NULL) return;
    if (hand_over(env, delivery)) watched++;
  }
  ring(environment);
}

/* Called on the JavaScript thread after a ring. `env` is NULL when the environment is ending. */
static void on_ring(napi_env env, napi_value callback, void *context, void *data) {
  (void)callback;
  (void)data;
  if (env != NULL) hand_over_all(env, context);
}

void give_up(napi_env env, struct netlink_socket *socket, int64_t deadline_ns, int error) {
  for (void *call; (call = netlink_socket_abandon(socket, deadline_ns)) != NULL;)
    settle(env, call, error, &no_replies);
}

static void handle_link(struct handle *handle) {
  struct environment *environment = handle->environment;
  handle->next = environment->handles;
  if (handle->next != NULL) handle->next->previous = handle;
  environment->handles = handle;
}

static void handle_unlink(struct handle *handle) {
  if (handle->previous != NULL) handle->previous->next = handle->next;
  else handle->environment->handles = handle->next;
  if (handle->next != NULL) handle->next->previous = handle->previous;
  handle->previous = handle->next = NULL;
}

void handle_close(napi_env env, struct handle *handle) {
  struct netlink_socket *socket = handle->socket;
  if (socket == NULL) return;
  handle->socket = NULL;
  handle_unlink(handle);
  give_up(env, socket, INT64_MAX, EBADF);
  netlink_socket_close(socket);
  drop_reference(env, &handle->watch_callback);
  drop_reference(env, &handle->watch_self);
}

/*
 * Called when the SocketHandle was garbage collected or its environment ended. Pending calls keep
 * the handle alive, so after a collection none are pending.
 */
static void finalize_handle(napi_env env, void *data, void *hint) {
  (void)hint;
  handle_close(env, data);
  free(data);
}

struct handle *read_handle(napi_env env, napi_value value) {
  bool is_ours = false;
  void *handle = NULL;
  napi_valuetype type = napi_undefined;
  napi_typeof(env, value, &type);
  if (type == napi_object) napi_check_object_type_tag(env, value, &handle_tag, &is_ours);
  if (is_ours && napi_unwrap(env, value, &handle) == napi_ok) return handle;
  throw_type_error(env, "The socket must be a handle from open()");
  return NULL;
}

napi_value wrap_socket(napi_env env, struct environment *environment,
                       struct netlink_socket *socket) {
  napi_value object;
  struct handle *handle = calloc(1, sizeof *handle);
  bool is_wrapped = handle != NULL && napi_create_object(env, &object) == napi_ok &&
                    napi_type_tag_object(env, object, &handle_tag) == napi_ok &&
                    napi_wrap(env, object, handle, finalize_handle, NULL, NULL) == napi_ok;
  if (!is_wrapped) {
    free(handle);
    netlink_socket_close(socket);
    return throw_errno(env, "open netlink socket", ENOMEM, "allocate");
  }
  *handle = (struct handle){.environment = environment, .socket = socket};
  handle_link(handle);
  return object;
}

int handle_watch(napi_env env, struct handle *handle, napi_value self, napi_value callback) {
  napi_ref references[2] = {NULL, NULL};
  bool is_made = napi_create_reference(env, callback, 1, &references[0]) == napi_ok &&
                 napi_create_reference(env, self, 1, &references[1]) == napi_ok;
  int error = !is_made                 ? ENOMEM
              : handle->socket == NULL ? EBADF
                                       : netlink_socket_watch(handle->socket, handle);
  if (error != 0) {
    drop_reference(env, &references[0]);
    drop_reference(env, &references[1]);
    return error;
  }
  handle->watch_callback = references[0];
  handle->watch_self = references[1];
  return 0;
}

/* Frees all calls without settling them. */
static void forget_calls(struct environment *environment, struct netlink_socket *socket) {
  for (void *call; (call = netlink_socket_abandon(socket, INT64_MAX)) != NULL;)
    pending_free(environment->env, call);
}

static void forget_finished(struct environment *environment) {
  struct completion_queue *queue = environment->completion_queue;
  for (struct delivery *delivery; (delivery = completion_queue_take(queue)) != NULL;) {
    if (!delivery->is_watched) pending_free(environment->env, delivery->context);
    delivery_free(delivery);
  }
}

/*
 * Called when the environment ends (process exit or end of a worker); no JavaScript runs after
 * this. Registered after the thread-safe function, so it is called before Node.js destroys that
 * function. Threads that are stuck in the kernel continue to exist: they find their sockets
 * closed and deliver nothing, and their code stays mapped (-z nodelete).
 */
static void end_environment(void *data) {
  struct environment *environment = data;
  while (environment->handles != NULL) {
    struct handle *handle = environment->handles;
    forget_calls(environment, handle->socket);
    handle_close(environment->env, handle);
  }
  forget_finished(environment);
  completion_queue_free(environment->completion_queue);
  napi_release_threadsafe_function(environment->wake_up, napi_tsfn_abort);
}

static void free_environment(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

/* On success, the thread-safe function owns `environment`. */
static bool make_wake_up(napi_env env, struct environment *environment) {
  napi_value name;
  return napi_create_string_utf8(env, "native-shim", NAPI_AUTO_LENGTH, &name) == napi_ok &&
         napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, environment, free_environment,
                                         environment, on_ring, &environment->wake_up) == napi_ok;
}

struct environment *start_environment(napi_env env) {
  struct environment *environment = calloc(1, sizeof *environment);
  if (environment == NULL) return NULL;
  struct completion_queue *queue = completion_queue_create(ring, environment);
  *environment = (struct environment){.env = env, .completion_queue = queue};
  if (queue == NULL || !make_wake_up(env, environment)) {
    if (queue != NULL) completion_queue_free(queue);
    free(environment);
    return NULL;
  }
  napi_threadsafe_function wake_up = environment->wake_up;
  if (napi_unref_threadsafe_function(env, wake_up) == napi_ok &&
      napi_add_env_cleanup_hook(env, end_environment, environment) == napi_ok)
    return environment;
  completion_queue_free(queue);
  napi_release_threadsafe_function(wake_up, napi_tsfn_abort);
  return NULL;
}

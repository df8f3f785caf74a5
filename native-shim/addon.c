/*
 * Node-API glue: turns the calls of `netlink-socket.d.ts` into those of `netlink-socket.h` and back.
 * `index.ts` makes promises of them. Every environment (main thread, each worker) has its own state;
 * nothing is static.
 *
 * The outbox rings a thread-safe function that carries no data: what is finished is taken from the outbox,
 * so nothing is lost or freed twice when an environment ends in between. The thread-safe function does not
 * keep the event loop alive; a pending call does, through the timer that `index.ts` sets for its deadline.
 */
#define NAPI_VERSION 8
#include <node_api.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netlink-socket.h"

/* Deliveries handed over per ring, so that a flood of multicast leaves room for the rest of the program. */
enum { DELIVERIES_PER_RING = 256, MAX_GROUPS = 64 };

struct environment {
  napi_env env;
  struct outbox *outbox;
  napi_threadsafe_function doorbell;
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

static const struct reply_buffer no_replies = {0};
static const napi_type_tag handle_tag = {0x6b7562652d697076, 0x6e65746c696e6b31};

/* ---- values ---- */

/* Leaves the exception of a failed Node-API call in place, or throws one. */
static napi_value throw_type_error(napi_env env, const char *message) {
  bool is_pending = false;
  napi_is_exception_pending(env, &is_pending);
  if (!is_pending) napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", message);
  return NULL;
}

static napi_value undefined(napi_env env) {
  napi_value value = NULL;
  napi_get_undefined(env, &value);
  return value;
}

static void set_int(napi_env env, napi_value object, const char *name, int number) {
  napi_value value;
  if (napi_create_int32(env, number, &value) == napi_ok)
    napi_set_named_property(env, object, name, value);
}

static void set_text(napi_env env, napi_value object, const char *name, const char *text) {
  napi_value value;
  if (napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value) == napi_ok)
    napi_set_named_property(env, object, name, value);
}

/* An integer in [least, most]; anything else, NaN and fractions too, gives false. */
static bool read_integer(napi_env env, napi_value value, double least, double most, double *number) {
  if (napi_get_value_double(env, value, number) != napi_ok) return false;
  return *number >= least && *number <= most && *number == (double)(int64_t)*number;
}

/* A copy in an ArrayBuffer of its own; NULL when there is no memory. */
static napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer) {
  void *bytes = NULL;
  napi_value array_buffer, array;
  if (napi_create_arraybuffer(env, buffer->length, &bytes, &array_buffer) != napi_ok) return NULL;
  if (buffer->length > 0) memcpy(bytes, buffer->bytes, buffer->length);
  napi_status status =
      napi_create_typedarray(env, napi_uint8_array, buffer->length, array_buffer, 0, &array);
  return status == napi_ok ? array : NULL;
}

static napi_value make_result(napi_env env, int error, int operation, const struct reply_buffer *replies) {
  static const char *const names[] = {
      [OPERATION_NONE] = "", [OPERATION_SEND] = "send", [OPERATION_RECEIVE] = "receive"};
  napi_value result;
  napi_value bytes = copy_bytes(env, replies);
  if (bytes == NULL || napi_create_object(env, &result) != napi_ok) return NULL;
  set_int(env, result, "errno", error);
  set_text(env, result, "operation", names[operation]);
  napi_set_named_property(env, result, "replies", bytes);
  return result;
}

/* Throws an Error with `errno` and `operation`. */
static napi_value throw_errno(napi_env env, int error, const char *operation) {
  char message[160];
  napi_value text, object;
  snprintf(message, sizeof message, "Cannot use netlink socket: %s: %s", operation, strerror(error));
  napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text);
  if (napi_create_error(env, NULL, text, &object) != napi_ok) return NULL;
  set_int(env, object, "errno", error);
  set_text(env, object, "operation", operation);
  napi_throw(env, object);
  return NULL;
}

/* ---- handing over ---- */

static void drop_reference(napi_env env, napi_ref *reference) {
  if (*reference != NULL) napi_delete_reference(env, *reference);
  *reference = NULL;
}

static void pending_free(napi_env env, struct pending *pending) {
  drop_reference(env, &pending->callback);
  drop_reference(env, &pending->handle);
  free(pending);
}

/* Calls back; what the callback throws is an uncaught exception and does not reach the caller of ours. */
static void call_back(napi_env env, napi_value callback, size_t count, const napi_value *arguments) {
  if (callback == NULL) return;
  napi_status status = napi_call_function(env, undefined(env), callback, count, arguments, NULL);
  if (status != napi_pending_exception) return;
  napi_value thrown;
  if (napi_get_and_clear_last_exception(env, &thrown) == napi_ok) napi_fatal_exception(env, thrown);
}

static void settle(napi_env env, struct pending *pending, int error, int operation,
                   const struct reply_buffer *replies) {
  napi_value callback = NULL;
  napi_get_reference_value(env, pending->callback, &callback);
  pending_free(env, pending);
  napi_value result = make_result(env, error, operation, replies);
  if (result == NULL) result = make_result(env, ENOMEM, OPERATION_RECEIVE, &no_replies);
  if (result != NULL) call_back(env, callback, 1, &result);
}

/* A watched datagram; dropped when the socket was closed after it came. */
static void hand_over_watched(napi_env env, const struct delivery *delivery) {
  if (netlink_socket_is_closed(delivery->socket)) return;
  const struct handle *handle = delivery->context;
  napi_value callback = NULL;
  napi_value arguments[2];
  napi_get_reference_value(env, handle->watch_callback, &callback);
  napi_create_int32(env, delivery->exchange.error, &arguments[0]);
  arguments[1] = copy_bytes(env, &delivery->exchange.replies);
  if (arguments[1] != NULL) call_back(env, callback, 2, arguments);
}

static void hand_over(napi_env env, struct delivery *delivery) {
  napi_handle_scope scope;
  napi_open_handle_scope(env, &scope);
  struct exchange *exchange = &delivery->exchange;
  if (delivery->is_watched) hand_over_watched(env, delivery);
  else settle(env, delivery->context, exchange->error, exchange->operation, &exchange->replies);
  napi_close_handle_scope(env, scope);
  delivery_free(delivery);
}

/* Empties the outbox, or takes a fair share and comes back for the rest. */
static void hand_over_all(napi_env env, struct environment *environment) {
  for (int count = 0; count < DELIVERIES_PER_RING; count++) {
    struct delivery *delivery = outbox_take(environment->outbox);
    if (delivery == NULL) return;
    hand_over(env, delivery);
  }
  napi_call_threadsafe_function(environment->doorbell, NULL, napi_tsfn_nonblocking);
}

/* On the JavaScript thread, after a ring. `env` is NULL when the environment is ending. */
static void on_ring(napi_env env, napi_value callback, void *context, void *data) {
  (void)callback;
  (void)data;
  if (env != NULL) hand_over_all(env, context);
}

/* On any thread, under the outbox's lock. */
static void ring(void *context) {
  struct environment *environment = context;
  napi_call_threadsafe_function(environment->doorbell, NULL, napi_tsfn_nonblocking);
}

/* Settles with `error` every call whose deadline is not later than `deadline_ns`. */
static void give_up(napi_env env, struct netlink_socket *socket, int64_t deadline_ns, int error) {
  struct abandoned abandoned;
  while (netlink_socket_abandon(socket, deadline_ns, &abandoned))
    settle(env, abandoned.context, error, (int)abandoned.operation, &no_replies);
}

/* ---- handles ---- */

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

/*
 * Ends the pending calls with EBADF, closes the socket and forgets the watch. The handle counts as closed
 * before the first callback runs.
 */
static void handle_close(napi_env env, struct handle *handle) {
  struct netlink_socket *socket = handle->socket;
  if (socket == NULL) return;
  handle->socket = NULL;
  handle_unlink(handle);
  give_up(env, socket, INT64_MAX, EBADF);
  netlink_socket_close(socket);
  drop_reference(env, &handle->watch_callback);
  drop_reference(env, &handle->watch_self);
}

/* The SocketHandle was collected (nothing is pending then: that would hold it) or its environment ended. */
static void finalize_handle(napi_env env, void *data, void *hint) {
  (void)hint;
  handle_close(env, data);
  free(data);
}

/* The handle of argument 0; throws and returns NULL when it is none. */
static struct handle *read_handle(napi_env env, napi_value value) {
  bool is_ours = false;
  void *handle = NULL;
  napi_valuetype type = napi_undefined;
  napi_typeof(env, value, &type);
  if (type == napi_object) napi_check_object_type_tag(env, value, &handle_tag, &is_ours);
  if (is_ours && napi_unwrap(env, value, &handle) == napi_ok) return handle;
  throw_type_error(env, "The socket must be a handle from open()");
  return NULL;
}

/* ---- open ---- */

/* Reads a property that may be absent: leaves `number` alone then. */
static bool read_optional_bytes(napi_env env, napi_value options, const char *name, int *number) {
  napi_value value;
  napi_valuetype type;
  double read;
  if (napi_get_named_property(env, options, name, &value) != napi_ok) return false;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined) return true;
  if (!read_integer(env, value, 1, INT_MAX / 2, &read)) return false;
  *number = (int)read;
  return true;
}

static bool read_optional_flag(napi_env env, napi_value options, const char *name, bool *flag) {
  napi_value value;
  napi_valuetype type;
  if (napi_get_named_property(env, options, name, &value) != napi_ok) return false;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  return type == napi_undefined || napi_get_value_bool(env, value, flag) == napi_ok;
}

static bool read_group(napi_env env, napi_value groups, uint32_t index, uint32_t *group) {
  napi_value value;
  double read;
  if (napi_get_element(env, groups, index, &value) != napi_ok) return false;
  if (!read_integer(env, value, 1, UINT32_MAX, &read)) return false;
  *group = (uint32_t)read;
  return true;
}

static bool read_groups(napi_env env, napi_value options, uint32_t *groups, size_t *count) {
  napi_value value;
  napi_valuetype type;
  bool is_array = false;
  uint32_t length = 0;
  *count = 0;
  if (napi_get_named_property(env, options, "groups", &value) != napi_ok) return false;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  if (type == napi_undefined) return true;
  if (napi_is_array(env, value, &is_array) != napi_ok || !is_array) return false;
  if (napi_get_array_length(env, value, &length) != napi_ok || length > MAX_GROUPS) return false;
  for (uint32_t index = 0; index < length; index++)
    if (!read_group(env, value, index, &groups[index])) return false;
  *count = length;
  return true;
}

/* Returns what is wrong, or NULL. */
static const char *read_options(napi_env env, napi_value value, struct open_options *options, uint32_t *groups) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_object) return "options must be an object";
  if (!read_optional_bytes(env, value, "receiveBufferBytes", &options->receive_buffer_bytes))
    return "receiveBufferBytes must be an integer from 1 to 1073741823";
  if (!read_optional_bytes(env, value, "sendBufferBytes", &options->send_buffer_bytes))
    return "sendBufferBytes must be an integer from 1 to 1073741823";
  if (!read_optional_flag(env, value, "extendedAck", &options->extended_ack)) return "extendedAck must be a boolean";
  if (!read_optional_flag(env, value, "capAck", &options->cap_ack)) return "capAck must be a boolean";
  if (!read_optional_flag(env, value, "strictCheck", &options->strict_check)) return "strictCheck must be a boolean";
  if (!read_groups(env, value, groups, &options->group_count)) return "groups must be at most 64 group numbers";
  options->groups = groups;
  return NULL;
}

/* Makes the object that stands for `socket`; NULL with an exception, and the socket is closed. */
static napi_value wrap_socket(napi_env env, struct environment *environment, struct netlink_socket *socket) {
  napi_value object;
  struct handle *handle = calloc(1, sizeof *handle);
  bool is_wrapped = handle != NULL && napi_create_object(env, &object) == napi_ok &&
                    napi_type_tag_object(env, object, &handle_tag) == napi_ok &&
                    napi_wrap(env, object, handle, finalize_handle, NULL, NULL) == napi_ok;
  if (!is_wrapped) {
    free(handle);
    netlink_socket_close(socket);
    return throw_errno(env, ENOMEM, "allocate");
  }
  *handle = (struct handle){.environment = environment, .socket = socket};
  handle_link(handle);
  return object;
}

/* open(protocol, options) */
static napi_value open_socket(napi_env env, napi_callback_info call) {
  size_t count = 2;
  napi_value arguments[2];
  void *environment;
  double protocol;
  struct open_options options = {0};
  uint32_t groups[MAX_GROUPS];
  napi_get_cb_info(env, call, &count, arguments, NULL, &environment);
  if (!read_integer(env, arguments[0], 0, INT_MAX, &protocol))
    return throw_type_error(env, "protocol must be a netlink protocol number");
  const char *problem = read_options(env, arguments[1], &options, groups);
  if (problem != NULL) return throw_type_error(env, problem);
  const char *failed;
  struct outbox *outbox = ((struct environment *)environment)->outbox;
  struct netlink_socket *socket = netlink_socket_open((int)protocol, &options, outbox, &failed);
  if (socket == NULL) return throw_errno(env, errno, failed);
  return wrap_socket(env, environment, socket);
}

/* ---- calls ---- */

/* The first six arguments of submit and transactSync. */
struct request {
  struct handle *handle;
  struct call call;
};

/* Finds [offset, offset + length) in a Uint8Array. */
static bool read_bytes(napi_env env, const napi_value *arguments, struct call *call) {
  napi_typedarray_type type;
  size_t size;
  void *bytes;
  double offset, length;
  bool is_typed = false;
  if (napi_is_typedarray(env, arguments[0], &is_typed) != napi_ok || !is_typed) return false;
  if (napi_get_typedarray_info(env, arguments[0], &type, &size, &bytes, NULL, NULL) != napi_ok) return false;
  if (type != napi_uint8_array || bytes == NULL) return false;
  if (!read_integer(env, arguments[1], 0, (double)size, &offset)) return false;
  if (!read_integer(env, arguments[2], 1, (double)size - offset, &length)) return false;
  call->request = (const uint8_t *)bytes + (size_t)offset;
  call->request_length = (size_t)length;
  return true;
}

/* Throws and returns false when an argument is wrong. */
static bool read_request(napi_env env, const napi_value *arguments, struct request *request) {
  double sequence, timeout_ms;
  request->handle = read_handle(env, arguments[0]);
  if (request->handle == NULL) return false;
  const char *problem = NULL;
  if (!read_bytes(env, arguments + 1, &request->call))
    problem = "buffer must be a Uint8Array, offset and length a part of it that is not empty";
  else if (!read_integer(env, arguments[4], 0, UINT32_MAX, &sequence))
    problem = "lastSequence must be an unsigned 32-bit integer";
  else if (!read_integer(env, arguments[5], 1, INT_MAX, &timeout_ms))
    problem = "timeoutMs must be an integer from 1 to 2147483647";
  if (problem != NULL) {
    throw_type_error(env, problem);
    return false;
  }
  request->call.last_sequence = (uint32_t)sequence;
  request->call.deadline_ns = monotonic_ns() + (int64_t)timeout_ms * 1000000;
  return true;
}

/* Makes the references that a pending call holds; NULL with an exception. */
static struct pending *make_pending(napi_env env, napi_value callback, napi_value handle) {
  napi_valuetype type = napi_undefined;
  napi_typeof(env, callback, &type);
  if (type != napi_function) {
    throw_type_error(env, "onResult must be a function");
    return NULL;
  }
  struct pending *pending = calloc(1, sizeof *pending);
  if (pending == NULL) {
    throw_errno(env, ENOMEM, "send");
    return NULL;
  }
  napi_create_reference(env, callback, 1, &pending->callback);
  napi_create_reference(env, handle, 1, &pending->handle);
  return pending;
}

/*
 * submit(socket, buffer, offset, length, lastSequence, timeoutMs, onResult): calls back with a
 * TransactResult, always after it has returned. A call that is refused gives its result at once instead.
 */
static napi_value submit(napi_env env, napi_callback_info call) {
  size_t count = 7;
  napi_value arguments[7];
  struct request request = {0};
  napi_get_cb_info(env, call, &count, arguments, NULL, NULL);
  if (!read_request(env, arguments, &request)) return NULL;
  struct netlink_socket *socket = request.handle->socket;
  if (socket == NULL) return make_result(env, EBADF, OPERATION_SEND, &no_replies);
  struct pending *pending = make_pending(env, arguments[6], arguments[0]);
  if (pending == NULL) return NULL;
  request.call.context = pending;
  int error = netlink_socket_submit(socket, &request.call);
  if (error == 0) return undefined(env);
  pending_free(env, pending);
  return make_result(env, error, OPERATION_SEND, &no_replies);
}

/*
 * expire(socket): settles with ETIMEDOUT what is past its deadline, then hands over what is finished, so
 * that afterwards every such call has been settled one way or the other.
 */
static napi_value expire(napi_env env, napi_callback_info call) {
  size_t count = 1;
  napi_value argument;
  void *environment;
  napi_get_cb_info(env, call, &count, &argument, NULL, &environment);
  struct handle *handle = read_handle(env, argument);
  if (handle == NULL) return NULL;
  if (handle->socket != NULL) give_up(env, handle->socket, monotonic_ns(), ETIMEDOUT);
  hand_over_all(env, environment);
  return undefined(env);
}

/* transactSync(socket, buffer, offset, length, lastSequence, timeoutMs) */
static napi_value transact_sync(napi_env env, napi_callback_info call) {
  size_t count = 6;
  napi_value arguments[6];
  struct request request = {0};
  napi_get_cb_info(env, call, &count, arguments, NULL, NULL);
  if (!read_request(env, arguments, &request)) return NULL;
  struct exchange exchange = {.request = request.call.request,
                              .request_length = request.call.request_length,
                              .last_sequence = request.call.last_sequence,
                              .deadline_ns = request.call.deadline_ns};
  if (request.handle->socket == NULL) {
    exchange.error = EBADF;
    exchange.operation = OPERATION_SEND;
  } else {
    netlink_socket_transact(request.handle->socket, &exchange);
  }
  return make_result(env, exchange.error, exchange.operation, &exchange.replies);
}

/* watch(socket, onDatagram) */
static napi_value watch(napi_env env, napi_callback_info call) {
  size_t count = 2;
  napi_value arguments[2];
  napi_valuetype type = napi_undefined;
  napi_get_cb_info(env, call, &count, arguments, NULL, NULL);
  struct handle *handle = read_handle(env, arguments[0]);
  if (handle == NULL) return NULL;
  napi_typeof(env, arguments[1], &type);
  if (type != napi_function) return throw_type_error(env, "onDatagram must be a function");
  int error = handle->socket == NULL ? EBADF : netlink_socket_watch(handle->socket, handle);
  if (error != 0) return throw_errno(env, error, "watch");
  napi_create_reference(env, arguments[1], 1, &handle->watch_callback);
  napi_create_reference(env, arguments[0], 1, &handle->watch_self);
  return undefined(env);
}

/* close(socket) */
static napi_value close_socket(napi_env env, napi_callback_info call) {
  size_t count = 1;
  napi_value argument;
  napi_get_cb_info(env, call, &count, &argument, NULL, NULL);
  struct handle *handle = read_handle(env, argument);
  if (handle == NULL) return NULL;
  handle_close(env, handle);
  return undefined(env);
}

/* ---- the life of an environment ---- */

/* Frees the calls that nobody will be told about. */
static void forget_calls(struct environment *environment, struct netlink_socket *socket) {
  struct abandoned abandoned;
  while (netlink_socket_abandon(socket, INT64_MAX, &abandoned))
    pending_free(environment->env, abandoned.context);
}

static void forget_deliveries(struct environment *environment) {
  for (struct delivery *left; (left = outbox_take(environment->outbox)) != NULL;) {
    if (!left->is_watched) pending_free(environment->env, left->context);
    delivery_free(left);
  }
}

/*
 * The environment ends (process exit, or a worker's end); no JavaScript runs from here on. Registered after
 * the thread-safe function, hence called before Node takes that away. Threads that are stuck in the
 * kernel live on: they find the outbox disconnected, and the code stays mapped (-z nodelete).
 */
static void end_environment(void *data) {
  struct environment *environment = data;
  while (environment->handles != NULL) {
    struct handle *handle = environment->handles;
    forget_calls(environment, handle->socket);
    handle_close(environment->env, handle);
  }
  forget_deliveries(environment);
  outbox_disconnect(environment->outbox);
  outbox_release(environment->outbox);
  napi_release_threadsafe_function(environment->doorbell, napi_tsfn_abort);
}

static void free_environment(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free(data);
}

/* The thread-safe function owns `environment` from here on. */
static bool make_doorbell(napi_env env, struct environment *environment) {
  napi_value name;
  if (napi_create_string_utf8(env, "netlink", NAPI_AUTO_LENGTH, &name) != napi_ok) return false;
  napi_status status =
      napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, environment, free_environment,
                                      environment, on_ring, &environment->doorbell);
  return status == napi_ok && napi_unref_threadsafe_function(env, environment->doorbell) == napi_ok;
}

static struct environment *start_environment(napi_env env) {
  struct environment *environment = calloc(1, sizeof *environment);
  if (environment == NULL) return NULL;
  environment->env = env;
  environment->outbox = outbox_create(ring, environment);
  if (environment->outbox == NULL || !make_doorbell(env, environment)) return NULL;
  napi_add_env_cleanup_hook(env, end_environment, environment);
  return environment;
}

NAPI_MODULE_INIT() {
  struct environment *environment = start_environment(env);
  if (environment == NULL) return throw_errno(env, ENOMEM, "start");
  const napi_property_descriptor functions[] = {
      {"open", NULL, open_socket, NULL, NULL, NULL, napi_enumerable, environment},
      {"submit", NULL, submit, NULL, NULL, NULL, napi_enumerable, environment},
      {"expire", NULL, expire, NULL, NULL, NULL, napi_enumerable, environment},
      {"transactSync", NULL, transact_sync, NULL, NULL, NULL, napi_enumerable, environment},
      {"watch", NULL, watch, NULL, NULL, NULL, napi_enumerable, environment},
      {"close", NULL, close_socket, NULL, NULL, NULL, napi_enumerable, environment},
  };
  napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions);
  return exports;
}

/*
 * The addon's functions, as declared in `load-addon.ts`. `index.ts` turns them into promises.
 *
 * Each JavaScript environment (main thread or worker) has its own state; there is no static state.
 * The completion queue "rings": it calls a thread-safe function without data, which wakes the event
 * loop. Deliveries stay in the queue until they are taken, so nothing is lost or freed twice if the
 * environment ends before that. The thread-safe function does not keep the event loop alive. A
 * pending call does, through the timer that `index.ts` sets for its deadline.
 */
#define NAPI_VERSION 8
#include <errno.h>
#include <limits.h>
#include <node_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "legacy-table.h"
#include "netlink-socket.h"

/*
 * Maximum number of watched datagrams delivered per ring, so that a flood of multicast messages
 * does not starve other work.
 */
enum { WATCHED_PER_RING = 256 };

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
  /* Receives the results of calls and the watched datagrams. */
  napi_ref callback;
};

/* Keeps a failed Node-API call's exception, or throws a TypeError if there is none. */
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

/*
 * Reads `count` arguments of a call (undefined for missing ones) and, unless `data` is NULL, the
 * called function's data. Returns false with a pending exception on failure.
 */
static bool read_arguments(napi_env env, napi_callback_info call, size_t count,
                           napi_value *arguments, void **data) {
  if (napi_get_cb_info(env, call, &count, arguments, NULL, data) == napi_ok) return true;
  throw_type_error(env, "the arguments cannot be read");
  return false;
}

static bool set_int(napi_env env, napi_value object, const char *name, int number) {
  napi_value value;
  return napi_create_int32(env, number, &value) == napi_ok &&
         napi_set_named_property(env, object, name, value) == napi_ok;
}

static bool set_text(napi_env env, napi_value object, const char *name, const char *text) {
  napi_value value;
  return napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value) == napi_ok &&
         napi_set_named_property(env, object, name, value) == napi_ok;
}

/* Reads integers from 0 to `most[index]`. Returns false for any other value, including NaN. */
static bool read_integers(napi_env env, const napi_value *values, size_t count,
                          const double *most, double *numbers) {
  for (size_t index = 0; index < count; index++) {
    double *number = &numbers[index];
    if (napi_get_value_double(env, values[index], number) != napi_ok) return false;
    /* Written so that NaN fails the range check. */
    if (!(*number >= 0 && *number <= most[index]) || *number != (double)(int64_t)*number) return false;
  }
  return true;
}

/* Creates a Uint8Array with its own ArrayBuffer. NULL if there is no memory. */
static napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer) {
  void *bytes = NULL;
  napi_value array_buffer, array;
  if (napi_create_arraybuffer(env, buffer->length, &bytes, &array_buffer) != napi_ok) return NULL;
  if (buffer->length > 0) memcpy(bytes, buffer->bytes, buffer->length);
  napi_status status =
      napi_create_typedarray(env, napi_uint8_array, buffer->length, array_buffer, 0, &array);
  return status == napi_ok ? array : NULL;
}

/* Creates `{pid, uid}`. NULL if there is no memory. */
static napi_value make_peer(napi_env env, int pid, unsigned uid) {
  napi_value peer;
  bool is_made = napi_create_object(env, &peer) == napi_ok && set_int(env, peer, "pid", pid) &&
                 set_int(env, peer, "uid", (int)uid);
  return is_made ? peer : NULL;
}

/*
 * Throws an Error with `errno` and `operation`, "Cannot <action>: <operation>: …". If that object
 * cannot be created, throws a TypeError with the same message.
 */
static napi_value throw_errno(napi_env env, const char *action, int error, const char *operation) {
  char message[160];
  napi_value text, object;
  snprintf(message, sizeof message, "Cannot %s: %s: %s", action, operation, strerror(error));
  bool is_made = napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text) == napi_ok &&
                 napi_create_error(env, NULL, text, &object) == napi_ok &&
                 set_int(env, object, "errno", error) &&
                 set_text(env, object, "operation", operation);
  if (!is_made) return throw_type_error(env, message);
  napi_throw(env, object);
  return NULL;
}

/* Reads a Uint8Array, which may be empty. JavaScript owns the bytes. */
static bool read_bytes(napi_env env, napi_value value, const uint8_t **bytes, size_t *length) {
  napi_typedarray_type type;
  bool is_typed = false;
  if (napi_is_typedarray(env, value, &is_typed) != napi_ok || !is_typed) return false;
  void *data = NULL;
  napi_status status = napi_get_typedarray_info(env, value, &type, length, &data, NULL, NULL);
  *bytes = data;
  return status == napi_ok && type == napi_uint8_array;
}

/*
 * If the callback throws, the exception is reported as uncaught and does not propagate to our
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
 * Calls back with a finished call or a watched datagram, unless the socket has been closed. If
 * there is no memory for the bytes, calls back without them.
 */
static void deliver(napi_env env, const struct delivery *delivery) {
  if (netlink_socket_is_closed(delivery->socket)) return;
  const struct handle *handle = delivery->context;
  int error = delivery->exchange.error;
  napi_value callback = NULL, thrown, arguments[3];
  arguments[2] = copy_bytes(env, &delivery->exchange.replies);
  bool is_lost = arguments[2] == NULL;
  if (is_lost) {
    /* JavaScript cannot be called while a failed allocation's exception is pending. */
    napi_get_and_clear_last_exception(env, &thrown);
    error = delivery->call == 0 ? ENOBUFS : ENOMEM;
  }
  napi_get_reference_value(env, handle->callback, &callback);
  if (napi_create_int32(env, delivery->call, &arguments[0]) == napi_ok &&
      napi_create_int32(env, error, &arguments[1]) == napi_ok)
    call_back(env, callback, is_lost ? 2 : 3, arguments);
}

/* Called on any thread. The environment exists as long as a socket is open. */
static void ring(void *context) {
  struct environment *environment = context;
  napi_call_threadsafe_function(environment->wake_up, NULL, napi_tsfn_nonblocking);
}

/*
 * Delivers every finished call and a limited number of watched datagrams. The other datagrams are
 * delivered later.
 */
static void deliver_all(napi_env env, struct environment *environment) {
  for (int watched = 0; watched < WATCHED_PER_RING;) {
    struct delivery *delivery = completion_queue_take(environment->completion_queue);
    if (delivery == NULL) return;
    if (delivery->call == 0) watched++;
    napi_handle_scope scope;
    napi_open_handle_scope(env, &scope);
    deliver(env, delivery);
    napi_close_handle_scope(env, scope);
    delivery_free(delivery);
  }
  ring(environment);
}

/* Called on the JavaScript thread after a ring. `env` is NULL if the environment is ending. */
static void on_ring(napi_env env, napi_value callback, void *context, void *data) {
  (void)callback;
  (void)data;
  if (env != NULL) deliver_all(env, context);
}

static void drop_callback(napi_env env, struct handle *handle) {
  if (handle->callback != NULL) napi_delete_reference(env, handle->callback);
  handle->callback = NULL;
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

static void handle_close(napi_env env, struct handle *handle) {
  if (handle->socket == NULL) return;
  handle_unlink(handle);
  netlink_socket_close(handle->socket);
  handle->socket = NULL;
  drop_callback(env, handle);
}

/* Called when the SocketHandle has been garbage collected or its environment has ended. */
static void finalize_handle(napi_env env, void *data, void *hint) {
  (void)hint;
  handle_close(env, data);
  drop_callback(env, data);
  free(data);
}

/* Creates a SocketHandle without a socket. Returns NULL with a pending exception on failure. */
static struct handle *make_handle(napi_env env, napi_value callback, napi_value *object) {
  napi_valuetype type = napi_undefined;
  napi_typeof(env, callback, &type);
  if (type != napi_function) {
    throw_type_error(env, "open: the callback must be a function");
    return NULL;
  }
  struct handle *handle = calloc(1, sizeof *handle);
  if (handle != NULL && napi_create_object(env, object) == napi_ok &&
      napi_create_reference(env, callback, 1, &handle->callback) == napi_ok &&
      napi_wrap(env, *object, handle, finalize_handle, NULL, NULL) == napi_ok)
    return handle;
  if (handle != NULL) drop_callback(env, handle);
  free(handle);
  throw_errno(env, "open netlink socket", ENOMEM, "allocate");
  return NULL;
}

/*
 * Reads a SocketHandle that `index.ts` has checked. Throws and returns NULL if it has no native
 * object.
 */
static struct handle *read_handle(napi_env env, napi_value value) {
  void *handle = NULL;
  if (napi_unwrap(env, value, &handle) == napi_ok) return handle;
  throw_type_error(env, "The socket must be a handle from open()");
  return NULL;
}

/*
 * open(protocol, receiveBufferBytes, flags, groups, onDelivery). `groups` is a Uint8Array that
 * contains 32-bit numbers in the host's byte order.
 */
static napi_value open_socket(napi_env env, napi_callback_info call) {
  static const double most[] = {INT_MAX, INT_MAX / 2, 7};
  napi_value arguments[5], object;
  void *data;
  double numbers[3];
  const uint8_t *groups;
  size_t bytes;
  if (!read_arguments(env, call, 5, arguments, &data)) return NULL;
  if (!read_integers(env, arguments, 3, most, numbers) ||
      !read_bytes(env, arguments[3], &groups, &bytes))
    return throw_type_error(env, "open: wrong protocol, receiveBufferBytes, flags or groups");
  struct handle *handle = make_handle(env, arguments[4], &object);
  if (handle == NULL) return NULL;
  handle->environment = data;
  int flags = (int)numbers[2];
  const struct open_options options = {.receive_buffer_bytes = (int)numbers[1],
                                       .extended_ack = (flags & 1) != 0,
                                       .cap_ack = (flags & 2) != 0,
                                       .strict_check = (flags & 4) != 0,
                                       .groups = (const uint32_t *)(const void *)groups,
                                       .group_count = bytes / sizeof(uint32_t),
                                       .context = handle};
  const char *failed;
  handle->socket = netlink_socket_open((int)numbers[0], &options,
                                       handle->environment->completion_queue, &failed);
  if (handle->socket == NULL) return throw_errno(env, "open netlink socket", errno, failed);
  handle_link(handle);
  return object;
}

/*
 * submit(socket, call, request, lastSequence, timeoutMs, pieceBytes, oneByOne): queues a call and
 * returns 0, or returns an errno.
 */
static napi_value submit(napi_env env, napi_callback_info info) {
  static const double most[] = {UINT32_MAX, INT_MAX, MAX_REPLY_BYTES, 1, INT_MAX};
  napi_value arguments[7], result;
  double numbers[5];
  struct call call = {0};
  if (!read_arguments(env, info, 7, arguments, NULL)) return NULL;
  struct handle *handle = read_handle(env, arguments[0]);
  if (handle == NULL) return NULL;
  if (!read_bytes(env, arguments[2], &call.request, &call.request_length))
    return throw_type_error(env, "request must be a Uint8Array");
  if (!read_integers(env, arguments + 3, 4, most, numbers) ||
      !read_integers(env, arguments + 1, 1, most + 4, numbers + 4))
    return throw_type_error(env, "submit: wrong call, lastSequence, timeoutMs, pieceBytes or oneByOne");
  /* An empty request receives the next piece, so it is only valid with pieceBytes. */
  if (call.request_length == 0 && numbers[2] == 0)
    return throw_type_error(env, "request must not be empty");
  call.id = (int)numbers[4];
  call.last_sequence = (uint32_t)numbers[0];
  call.deadline_ns = monotonic_ns() + (int64_t)(numbers[1] * 1e6);
  call.piece_bytes = (size_t)numbers[2];
  call.one_by_one = numbers[3] == 1;
  int error = handle->socket == NULL ? EBADF : netlink_socket_submit(handle->socket, &call);
  if (napi_create_int32(env, error, &result) == napi_ok) return result;
  return throw_errno(env, "send to netlink socket", ENOMEM, "allocate");
}

/* deliver(): delivers finished calls without waiting for the event loop. */
static napi_value deliver_now(napi_env env, napi_callback_info call) {
  void *environment;
  if (!read_arguments(env, call, 0, NULL, &environment)) return NULL;
  deliver_all(env, environment);
  return undefined(env);
}

/* watch(socket) */
static napi_value watch(napi_env env, napi_callback_info call) {
  napi_value argument;
  if (!read_arguments(env, call, 1, &argument, NULL)) return NULL;
  struct handle *handle = read_handle(env, argument);
  if (handle == NULL) return NULL;
  int error = handle->socket == NULL ? EBADF : netlink_socket_watch(handle->socket);
  return error == 0 ? undefined(env) : throw_errno(env, "watch netlink socket", error, "watch");
}

/* close(socket) */
static napi_value close_socket(napi_env env, napi_callback_info call) {
  napi_value argument;
  if (!read_arguments(env, call, 1, &argument, NULL)) return NULL;
  struct handle *handle = read_handle(env, argument);
  if (handle == NULL) return NULL;
  handle_close(env, handle);
  return undefined(env);
}

/*
 * forbidCoreDumps(): from now on, the kernel writes no core dump of this process, neither to a file
 * nor to a program or socket named by kernel.core_pattern. RLIMIT_CORE 0 does not prevent the
 * latter. Processes without CAP_SYS_PTRACE can neither trace this process nor read its memory.
 * Programs that this process starts are not affected.
 */
static napi_value forbid_core_dumps(napi_env env, napi_callback_info call) {
  (void)call;
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0) return undefined(env);
  return throw_errno(env, "forbid core dumps", errno, "prctl");
}

/*
 * readPeer(fd): the process that listens on, or is connected to, the other end of a unix socket;
 * unix(7), SO_PEERCRED.
 */
static napi_value read_peer(napi_env env, napi_callback_info call) {
  static const double most[] = {INT_MAX};
  napi_value argument;
  double fd;
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (!read_arguments(env, call, 1, &argument, NULL)) return NULL;
  if (!read_integers(env, &argument, 1, most, &fd))
    return throw_type_error(env, "fd must be a file descriptor");
  if (getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return throw_errno(env, "read the peer of a socket", errno, "getsockopt");
  napi_value result = make_peer(env, peer.pid, peer.uid);
  return result != NULL ? result
                        : throw_errno(env, "read the peer of a socket", ENOMEM, "allocate");
}

/* readLegacyTable(name, family, maxBytes) */
static napi_value legacy_table(napi_env env, napi_callback_info call) {
  static const double most[] = {6, MAX_REPLY_BYTES};
  napi_value arguments[3];
  double numbers[2];
  char name[64];
  size_t length;
  if (!read_arguments(env, call, 3, arguments, NULL)) return NULL;
  if (napi_get_value_string_utf8(env, arguments[0], name, sizeof name, &length) != napi_ok ||
      !read_integers(env, arguments + 1, 2, most, numbers))
    return throw_type_error(env, "readLegacyTable: wrong name, family or maxBytes");
  struct reply_buffer entries = {0};
  const char *failed = "";
  int family = numbers[0] == 4 ? AF_INET : AF_INET6;
  int error = read_legacy_table(family, name, (size_t)numbers[1], &entries, &failed);
  napi_value result = error == 0 ? copy_bytes(env, &entries) : NULL;
  reply_buffer_free(&entries);
  if (error == 0 && result == NULL) error = ENOMEM, failed = "allocate";
  return error == 0 ? result : throw_errno(env, "read legacy iptables table", error, failed);
}

/*
 * Called when the environment ends (process or worker exit). No JavaScript runs after this.
 * Registered after the thread-safe function, so it is called before Node.js destroys that function.
 * Threads that are stuck in the kernel continue to exist. They find their sockets closed and
 * deliver nothing, and their code stays mapped (-z nodelete).
 */
static void end_environment(void *data) {
  struct environment *environment = data;
  struct completion_queue *queue = environment->completion_queue;
  while (environment->handles != NULL) handle_close(environment->env, environment->handles);
  for (struct delivery *left; (left = completion_queue_take(queue)) != NULL;) delivery_free(left);
  completion_queue_free(queue);
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

/* Returns NULL if there is no memory. */
static struct environment *start_environment(napi_env env) {
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

NAPI_MODULE_INIT() {
  struct environment *environment = start_environment(env);
  if (environment == NULL) return throw_errno(env, "load the addon", ENOMEM, "start");
  const napi_property_descriptor functions[] = {
      {"open", NULL, open_socket, NULL, NULL, NULL, napi_enumerable, environment},
      {"submit", NULL, submit, NULL, NULL, NULL, napi_enumerable, environment},
      {"deliver", NULL, deliver_now, NULL, NULL, NULL, napi_enumerable, environment},
      {"watch", NULL, watch, NULL, NULL, NULL, napi_enumerable, environment},
      {"close", NULL, close_socket, NULL, NULL, NULL, napi_enumerable, environment},
      {"forbidCoreDumps", NULL, forbid_core_dumps, NULL, NULL, NULL, napi_enumerable, environment},
      {"readPeer", NULL, read_peer, NULL, NULL, NULL, napi_enumerable, environment},
      {"readLegacyTable", NULL, legacy_table, NULL, NULL, NULL, napi_enumerable, environment},
  };
  size_t count = sizeof functions / sizeof functions[0];
  if (napi_define_properties(env, exports, count, functions) == napi_ok) return exports;
  return throw_errno(env, "load the addon", ENOMEM, "define");
}

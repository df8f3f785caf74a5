/*
 * The functions of the addon, as declared in `load-addon.ts`, implemented with
 * `netlink-socket.h`. `index.ts` wraps them in promises.
 */
#include <errno.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "environment.h"
#include "js-values.h"
#include "legacy-table.h"

/*
 * open(protocol, receiveBufferBytes, flags, groups). `groups` is a Uint8Array that contains
 * 32-bit numbers in the host's byte order.
 */
static napi_value open_socket(napi_env env, napi_callback_info call) {
  static const double most[] = {INT_MAX, INT_MAX / 2, 7};
  napi_value arguments[4];
  void *environment;
  double numbers[3];
  const uint8_t *groups;
  size_t bytes;
  if (!read_arguments(env, call, 4, arguments, &environment)) return NULL;
  if (!read_integers(env, arguments, 3, most, numbers) ||
      !read_bytes(env, arguments[3], &groups, &bytes))
    return throw_type_error(env, "open: wrong protocol, receiveBufferBytes, flags or groups");
  int flags = (int)numbers[2];
  const struct open_options options = {.receive_buffer_bytes = (int)numbers[1],
                                       .extended_ack = (flags & 1) != 0,
                                       .cap_ack = (flags & 2) != 0,
                                       .strict_check = (flags & 4) != 0,
                                       .groups = (const uint32_t *)(const void *)groups,
                                       .group_count = bytes / sizeof(uint32_t)};
  const char *failed;
  struct completion_queue *queue = ((struct environment *)environment)->completion_queue;
  struct netlink_socket *socket =
      netlink_socket_open((int)numbers[0], &options, queue, &failed);
  if (socket == NULL) return throw_errno(env, "open netlink socket", errno, failed);
  return wrap_socket(env, environment, socket);
}

/*
 * Reads request, lastSequence, timeoutMs, pieceBytes and oneByOne. Returns a description of the
 * invalid argument, or NULL.
 */
static const char *read_call(napi_env env, const napi_value *arguments, struct call *call) {
  static const double most[] = {UINT32_MAX, INT_MAX, MAX_REPLY_BYTES, 1};
  double numbers[4];
  if (!read_bytes(env, arguments[0], &call->request, &call->request_length))
    return "request must be a Uint8Array";
  if (!read_integers(env, arguments + 1, 4, most, numbers))
    return "submit: wrong lastSequence, timeoutMs, pieceBytes or oneByOne";
  /* An empty request continues to receive in pieces, so it is only valid with pieceBytes. */
  if (call->request_length == 0 && numbers[2] == 0) return "request must not be empty";
  call->last_sequence = (uint32_t)numbers[0];
  call->deadline_ns = monotonic_ns() + (int64_t)(numbers[1] * 1e6);
  call->piece_bytes = (size_t)numbers[2];
  call->one_by_one = numbers[3] == 1;
  return NULL;
}

/*
 * The result of a call that cannot be queued. A return value of undefined would mean that the
 * callback will be called.
 */
static napi_value refused_result(napi_env env, int error) {
  napi_value result = make_result(env, error, &no_replies);
  return result != NULL ? result : throw_errno(env, "send to netlink socket", ENOMEM, "allocate");
}

/*
 * submit(socket, request, lastSequence, timeoutMs, pieceBytes, oneByOne, onResult): calls
 * `onResult` with a TransactResult, always after `submit` has returned. If the call cannot be
 * queued, `submit` returns the result instead.
 */
static napi_value submit(napi_env env, napi_callback_info info) {
  napi_value arguments[7];
  struct call call = {0};
  if (!read_arguments(env, info, 7, arguments, NULL)) return NULL;
  struct handle *handle = read_handle(env, arguments[0]);
  if (handle == NULL) return NULL;
  const char *problem = read_call(env, arguments + 1, &call);
  if (problem != NULL) return throw_type_error(env, problem);
  if (handle->socket == NULL) return refused_result(env, EBADF);
  struct pending *pending = make_pending(env, arguments[6], arguments[0]);
  if (pending == NULL) return NULL;
  call.context = pending;
  int error = netlink_socket_submit(handle->socket, &call);
  if (error == 0) return undefined(env);
  pending_free(env, pending);
  return refused_result(env, error);
}

/*
 * expire(socket): settles calls past their deadline with ETIMEDOUT, then delivers the results of
 * finished calls. Afterwards every call that was past its deadline is settled.
 */
static napi_value expire(napi_env env, napi_callback_info call) {
  napi_value argument;
  void *environment;
  if (!read_arguments(env, call, 1, &argument, &environment)) return NULL;
  struct handle *handle = read_handle(env, argument);
  if (handle == NULL) return NULL;
  if (handle->socket != NULL) give_up(env, handle->socket, monotonic_ns(), ETIMEDOUT);
  hand_over_all(env, environment);
  return undefined(env);
}

/* watch(socket, onDatagram) */
static napi_value watch(napi_env env, napi_callback_info call) {
  napi_value arguments[2];
  napi_valuetype type = napi_undefined;
  if (!read_arguments(env, call, 2, arguments, NULL)) return NULL;
  struct handle *handle = read_handle(env, arguments[0]);
  if (handle == NULL) return NULL;
  napi_typeof(env, arguments[1], &type);
  if (type != napi_function) return throw_type_error(env, "onDatagram must be a function");
  int error = handle_watch(env, handle, arguments[0], arguments[1]);
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
 * forbidCoreDumps(): from now on the kernel writes no core dump of this process, neither to a
 * file nor to a program or socket named by kernel.core_pattern. RLIMIT_CORE 0 does not prevent
 * the latter. Processes without CAP_SYS_PTRACE can neither trace this process nor read its
 * memory. Programs that it starts are not affected.
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

NAPI_MODULE_INIT() {
  struct environment *environment = start_environment(env);
  if (environment == NULL) return throw_errno(env, "load the addon", ENOMEM, "start");
  const napi_property_descriptor functions[] = {
      {"open", NULL, open_socket, NULL, NULL, NULL, napi_enumerable, environment},
      {"submit", NULL, submit, NULL, NULL, NULL, napi_enumerable, environment},
      {"expire", NULL, expire, NULL, NULL, NULL, napi_enumerable, environment},
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

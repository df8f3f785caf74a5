/*
 * enter(path): moves the calling thread into the network namespace that a file stands for, setns(2).
 * Only the JavaScript main thread moves: sockets it opens, processes it starts and what it sees under
 * /proc/sys/net and /proc/net follow; threads of the pool that are already running do not. Tests only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <node_api.h>
#include <sched.h>
#include <unistd.h>

static napi_value enter(napi_env env, napi_callback_info info) {
  napi_value argument, result;
  size_t count = 1, length;
  char path[PATH_MAX];
  int error = 0;

  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  if (count < 1 || napi_get_value_string_utf8(env, argument, path, sizeof(path), &length) != napi_ok) {
    napi_throw_type_error(env, NULL, "enter: a path is needed");
    return NULL;
  }
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) error = errno;
  if (file >= 0) close(file);
  napi_create_int32(env, error, &result);
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "enter", NAPI_AUTO_LENGTH, enter, NULL, &function);
  napi_set_named_property(env, exports, "enter", function);
  return exports;
}

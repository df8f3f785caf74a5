#include "js-values.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct reply_buffer no_replies = {0};

/* Keeps the exception of a failed Node-API call, or throws a TypeError if there is none. */
napi_value throw_type_error(napi_env env, const char *message) {
  bool is_pending = false;
  napi_is_exception_pending(env, &is_pending);
  if (!is_pending) napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", message);
  return NULL;
}

napi_value undefined(napi_env env) {
  napi_value value = NULL;
  napi_get_undefined(env, &value);
  return value;
}

bool read_arguments(napi_env env, napi_callback_info call, size_t count, napi_value *arguments,
                    void **data) {
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

bool read_integers(napi_env env, const napi_value *values, size_t count, const double *most,
                   double *numbers) {
  for (size_t index = 0; index < count; index++) {
    double *number = &numbers[index];
    if (napi_get_value_double(env, values[index], number) != napi_ok) return false;
    /* Written so that NaN fails the range check. */
    if (!(*number >= 0 && *number <= most[index]) || *number != (double)(int64_t)*number) return false;
  }
  return true;
}

/* Copies the bytes to a new ArrayBuffer; NULL if there is no memory. */
napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer) {
  void *bytes = NULL;
  napi_value array_buffer, array;
  if (napi_create_arraybuffer(env, buffer->length, &bytes, &array_buffer) != napi_ok) return NULL;
  if (buffer->length > 0) memcpy(bytes, buffer->bytes, buffer->length);
  napi_status status =
      napi_create_typedarray(env, napi_uint8_array, buffer->length, array_buffer, 0, &array);
  return status == napi_ok ? array : NULL;
}

napi_value make_result(napi_env env, int error, const struct reply_buffer *replies) {
  napi_value result;
  napi_value bytes = copy_bytes(env, replies);
  if (bytes == NULL || napi_create_object(env, &result) != napi_ok) return NULL;
  bool is_whole = set_int(env, result, "errno", error) &&
                  napi_set_named_property(env, result, "replies", bytes) == napi_ok;
  return is_whole ? result : NULL;
}

napi_value make_peer(napi_env env, int pid, unsigned uid) {
  napi_value peer;
  bool is_made = napi_create_object(env, &peer) == napi_ok && set_int(env, peer, "pid", pid) &&
                 set_int(env, peer, "uid", (int)uid);
  return is_made ? peer : NULL;
}

/*
 * Throws an Error with `errno` and `operation`. If that object cannot be made, throws a TypeError
 * with the same message.
 */
napi_value throw_errno(napi_env env, const char *action, int error, const char *operation) {
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

bool read_bytes(napi_env env, napi_value value, const uint8_t **bytes, size_t *length) {
  napi_typedarray_type type;
  bool is_typed = false;
  if (napi_is_typedarray(env, value, &is_typed) != napi_ok || !is_typed) return false;
  void *data = NULL;
  napi_status status = napi_get_typedarray_info(env, value, &type, length, &data, NULL, NULL);
  *bytes = data;
  return status == napi_ok && type == napi_uint8_array;
}

#include "js-values.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

const struct reply_buffer no_replies = {0};

/* Leaves the exception of a failed Node-API call in place, or throws one. */
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

bool read_number(napi_env env, napi_value value, double least, double most, double *number) {
  if (napi_get_value_double(env, value, number) != napi_ok) return false;
  return *number >= least && *number <= most;
}

bool read_integer(napi_env env, napi_value value, double least, double most, double *number) {
  return read_number(env, value, least, most, number) && *number == (double)(int64_t)*number;
}

/* A copy in an ArrayBuffer of its own; NULL when there is no memory. */
napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer) {
  void *bytes = NULL;
  napi_value array_buffer, array;
  if (napi_create_arraybuffer(env, buffer->length, &bytes, &array_buffer) != napi_ok) return NULL;
  if (buffer->length > 0) memcpy(bytes, buffer->bytes, buffer->length);
  napi_status status =
      napi_create_typedarray(env, napi_uint8_array, buffer->length, array_buffer, 0, &array);
  return status == napi_ok ? array : NULL;
}

napi_value make_result(napi_env env, int error, int operation, const struct reply_buffer *replies) {
  static const char *const names[] = {
      [OPERATION_NONE] = "", [OPERATION_SEND] = "send", [OPERATION_RECEIVE] = "receive"};
  napi_value result;
  napi_value bytes = copy_bytes(env, replies);
  if (bytes == NULL || napi_create_object(env, &result) != napi_ok) return NULL;
  bool is_whole = set_int(env, result, "errno", error) &&
                  set_text(env, result, "operation", names[operation]) &&
                  napi_set_named_property(env, result, "replies", bytes) == napi_ok;
  return is_whole ? result : NULL;
}

napi_value make_peer(napi_env env, int pid, unsigned uid) {
  napi_value peer;
  bool is_made = napi_create_object(env, &peer) == napi_ok && set_int(env, peer, "pid", pid) &&
                 set_int(env, peer, "uid", (int)uid);
  return is_made ? peer : NULL;
}

/* Throws an Error with `errno` and `operation`; if it cannot be made, a TypeError with its message. */
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
const char *read_options(napi_env env, napi_value value, struct open_options *options,
                         uint32_t *groups) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_object)
    return "options must be an object";
  if (!read_optional_bytes(env, value, "receiveBufferBytes", &options->receive_buffer_bytes))
    return "receiveBufferBytes must be an integer from 1 to 1073741823";
  if (!read_optional_flag(env, value, "extendedAck", &options->extended_ack))
    return "extendedAck must be a boolean";
  if (!read_optional_flag(env, value, "capAck", &options->cap_ack))
    return "capAck must be a boolean";
  if (!read_optional_flag(env, value, "strictCheck", &options->strict_check))
    return "strictCheck must be a boolean";
  if (!read_groups(env, value, groups, &options->group_count))
    return "groups must be at most 64 group numbers";
  options->groups = groups;
  return NULL;
}

bool read_bytes(napi_env env, napi_value value, struct call *call) {
  napi_typedarray_type type;
  void *bytes = NULL;
  bool is_typed = false;
  if (napi_is_typedarray(env, value, &is_typed) != napi_ok || !is_typed) return false;
  napi_status status = napi_get_typedarray_info(env, value, &type, &call->request_length, &bytes,
                                                NULL, NULL);
  call->request = bytes;
  return status == napi_ok && type == napi_uint8_array;
}

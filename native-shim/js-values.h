/* Converts JavaScript values: checks each argument, and makes results and errors. */
#ifndef JS_VALUES_H
#define JS_VALUES_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "netlink-socket.h"

extern const struct reply_buffer no_replies;

/* Throws a TypeError unless an exception is already pending; returns NULL. */
napi_value throw_type_error(napi_env env, const char *message);

/* Throws an Error with `errno` and `operation`, "Cannot <action>: <operation>: …"; returns NULL. */
napi_value throw_errno(napi_env env, const char *action, int error, const char *operation);

napi_value undefined(napi_env env);

/*
 * Reads `count` arguments of a call (undefined for missing ones) and the data of its function
 * unless `data` is NULL. Returns false with a pending exception on failure.
 */
bool read_arguments(napi_env env, napi_callback_info call, size_t count, napi_value *arguments,
                    void **data);

/* Makes a Uint8Array with its own ArrayBuffer; NULL if there is no memory. */
napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer);

/* Makes a TransactResult; NULL if there is no memory. */
napi_value make_result(napi_env env, int error, const struct reply_buffer *replies);

/* Makes `{pid, uid}`; NULL if there is no memory. */
napi_value make_peer(napi_env env, int pid, unsigned uid);

/* Reads integers from 0 to `most[index]`. Returns false for any other value, including NaN. */
bool read_integers(napi_env env, const napi_value *values, size_t count, const double *most,
                   double *numbers);

/* Reads a Uint8Array, which may be empty. JavaScript owns the bytes. */
bool read_bytes(napi_env env, napi_value value, const uint8_t **bytes, size_t *length);

#endif

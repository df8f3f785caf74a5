/*
 * JavaScript values in and out: arguments checked one by one, results and errors made.
 */
#ifndef JS_VALUES_H
#define JS_VALUES_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "netlink-socket.h"

extern const struct reply_buffer no_replies;

/* Throws a TypeError, unless something is thrown already; returns NULL. */
napi_value throw_type_error(napi_env env, const char *message);

/* Throws an Error with `errno` and `operation`, "Cannot <action>: <operation>: …"; returns NULL. */
napi_value throw_errno(napi_env env, const char *action, int error, const char *operation);

napi_value undefined(napi_env env);

/*
 * Reads so many arguments of a call, undefined for those that were not given, and the data of its function unless `data` is
 * NULL. False with an exception.
 */
bool read_arguments(napi_env env, napi_callback_info call, size_t count, napi_value *arguments,
                    void **data);

/* A Uint8Array with an ArrayBuffer of its own; NULL when there is no memory. */
napi_value copy_bytes(napi_env env, const struct reply_buffer *buffer);

/* A TransactResult; NULL when there is no memory. */
napi_value make_result(napi_env env, int error, int operation, const struct reply_buffer *replies);

/* `{pid, uid}`; NULL when there is no memory. */
napi_value make_peer(napi_env env, int pid, unsigned uid);

/* Reads integers from 0 to `most`, each with a limit of its own; anything else, NaN too, gives false. */
bool read_integers(napi_env env, const napi_value *values, size_t count, const double *most,
                   double *numbers);

/* Reads a Uint8Array, which may be empty. Its bytes belong to JavaScript. */
bool read_bytes(napi_env env, napi_value value, const uint8_t **bytes, size_t *length);

#endif

/*
 * Implements the part of Node-API that the addon uses, without JavaScript. Any call can be made to
 * fail. To detect uninitialized values, the driver exits on a value that this Node-API did not
 * create.
 */
#ifndef FAKE_NODE_API_H
#define FAKE_NODE_API_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the n-th subsequent call that can fail return an error, counted from 1. 0 disables this. */
void fail_call(int nth);

/* Makes every subsequent call of this function fail. NULL disables this. */
void fail_calls_of(const char *name);

/* Name of the Node-API function that failed. NULL if none did. */
const char *failed_call(void);

/* Starts an environment and loads the addon. Returns false if it threw. */
bool load_addon(void);

/*
 * Calls one of the addon's functions. Returns NULL if it threw. Values are valid until the
 * environment ends.
 */
napi_value call_addon(const char *name, size_t count, const napi_value *arguments);

/* Delivers completed calls, if the addon has requested it. */
void turn_event_loop(void);

/*
 * Ends the environment in the same order as Node.js: hooks, then wrapped objects, then everything
 * else. Checks that no reference is left.
 */
void end_environment_of_addon(void);

napi_value number_value(double number);
napi_value bytes_value(const void *bytes, size_t length);
napi_value undefined_value(void);

/* Returns a function that counts its calls in `calls`. */
napi_value counting_function(int *calls);

/* Number of arguments in the last call of such a function. */
size_t last_argument_count(void);
napi_value last_argument(size_t index);

double number_of(napi_value value);

#endif

/*
 * Node-API without JavaScript, as far as the addon uses it. One call of it can be made to fail; a value that Node-API never gave
 * out ends the driver, so that nothing uninitialised passes.
 */
#ifndef FAKE_NODE_API_H
#define FAKE_NODE_API_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fails the n-th call from now on, counted from 1, that can fail; 0: none. */
void fail_call(int nth);

/* Fails every call of this name from now on; NULL: none. */
void fail_calls_of(const char *name);

/* The function of Node-API that failed; NULL: none did. */
const char *failed_call(void);

/* Starts an environment and loads the addon. False if it threw. */
bool load_addon(void);

/* Calls a function of the addon. NULL if it threw. The values live until the environment ends. */
napi_value call_addon(const char *name, size_t count, const napi_value *arguments);

/* Hands over what is finished, if the addon rang. */
void turn_event_loop(void);

/* Ends the environment as Node.js does: hooks, then what objects wrap, then the rest. Checks that no reference is left. */
void end_environment_of_addon(void);

napi_value number_value(double number);
napi_value bytes_value(const void *bytes, size_t length);
napi_value undefined_value(void);

/* A function that counts its calls in `calls`. */
napi_value counting_function(int *calls);

/* The arguments of the last call of such a function. */
size_t last_argument_count(void);
napi_value last_argument(size_t index);

double number_of(napi_value value);

#endif

#include "program-calls.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "js-values.h"

/* A run and who waits for it. */
struct waiting_run {
  struct environment *environment;
  struct waiting_run *previous, *next;
  struct program_run *run;
  napi_ref callback;
};

/* The first that waits keeps the event loop alive, the last lets it go. */
static void waiting_link(struct waiting_run *waiting) {
  struct environment *environment = waiting->environment;
  if (environment->runs == NULL)
    napi_ref_threadsafe_function(environment->env, environment->doorbell);
  waiting->next = environment->runs;
  if (waiting->next != NULL) waiting->next->previous = waiting;
  environment->runs = waiting;
}

static void waiting_unlink(struct waiting_run *waiting) {
  struct environment *environment = waiting->environment;
  if (waiting->previous != NULL) waiting->previous->next = waiting->next;
  else environment->runs = waiting->next;
  if (waiting->next != NULL) waiting->next->previous = waiting->previous;
  if (environment->runs == NULL)
    napi_unref_threadsafe_function(environment->env, environment->doorbell);
}

static void waiting_free(struct waiting_run *waiting) {
  napi_delete_reference(waiting->environment->env, waiting->callback);
  program_run_release(waiting->run);
  free(waiting);
}

/* Throws and returns false when an argument is wrong. */
static bool read_program(napi_env env, const napi_value *arguments, struct program *program) {
  double timeout_ms, max_output_bytes;
  napi_valuetype type = napi_undefined;
  napi_typeof(env, arguments[6], &type);
  const char *problem = NULL;
  if (!read_byte_range(env, arguments[0], &program->arguments) ||
      !read_byte_range(env, arguments[1], &program->environment) ||
      !read_byte_range(env, arguments[2], &program->folders))
    problem = "arguments, environment and folders must be Uint8Arrays";
  else if (!read_byte_range(env, arguments[3], &program->input))
    problem = "input must be a Uint8Array";
  else if (!read_number(env, arguments[4], 0, INT_MAX, &timeout_ms))
    problem = "timeoutMs must be a number from 0 to 2147483647";
  else if (!read_integer(env, arguments[5], 0, MAX_REPLY_BYTES, &max_output_bytes))
    problem = "maxOutputBytes must be an integer from 0 to 268435456";
  else if (type != napi_function)
    problem = "onEnd must be a function";
  if (problem != NULL) {
    throw_type_error(env, problem);
    return false;
  }
  program->deadline_ns = monotonic_ns() + (int64_t)(timeout_ms * 1e6);
  program->max_output_bytes = (size_t)max_output_bytes;
  return true;
}

static int start(struct environment *environment, const struct program *program,
                 napi_value callback) {
  struct waiting_run *waiting = calloc(1, sizeof *waiting);
  if (waiting == NULL) return ENOMEM;
  int error = program_run_start(program, environment->outbox, waiting, &waiting->run);
  if (error != 0) {
    free(waiting);
    return error;
  }
  waiting->environment = environment;
  napi_create_reference(environment->env, callback, 1, &waiting->callback);
  waiting_link(waiting);
  return 0;
}

napi_value run_program(napi_env env, napi_callback_info call) {
  size_t count = 7;
  napi_value arguments[7];
  void *environment;
  struct program program = {0};
  napi_get_cb_info(env, call, &count, arguments, NULL, &environment);
  if (!read_program(env, arguments, &program)) return NULL;
  int error = start(environment, &program, arguments[6]);
  if (error == EINVAL)
    return throw_type_error(env, "arguments must name a program, and a list end with a NUL");
  if (error != 0) return throw_errno(env, "run a program", error, "start");
  return undefined(env);
}

void settle_run(napi_env env, struct program_run *run) {
  static const struct program_result no_memory = {.error = ENOMEM, .operation = PROGRAM_RUN};
  struct waiting_run *waiting = run->context;
  napi_value callback = NULL;
  napi_get_reference_value(env, waiting->callback, &callback);
  napi_value end = make_program_end(env, &run->result);
  if (end == NULL) end = make_program_end(env, &no_memory);
  waiting_unlink(waiting);
  waiting_free(waiting);
  if (end != NULL) call_back(env, callback, 1, &end);
}

napi_value abandon_programs(napi_env env, napi_callback_info call) {
  void *environment;
  napi_get_cb_info(env, call, NULL, NULL, NULL, &environment);
  abandon_runs(environment);
  return undefined(env);
}

void abandon_runs(struct environment *environment) {
  for (struct waiting_run *waiting = environment->runs; waiting != NULL; waiting = waiting->next)
    program_run_abandon(waiting->run);
}

void forget_runs(struct environment *environment) {
  while (environment->runs != NULL) {
    struct waiting_run *waiting = environment->runs;
    environment->runs = waiting->next;
    waiting_free(waiting);
  }
}

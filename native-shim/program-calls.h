/*
 * The programs that JavaScript waits for.
 */
#ifndef PROGRAM_CALLS_H
#define PROGRAM_CALLS_H

#include "environment.h"
#include "program-run.h"

/*
 * run(arguments, environment, folders, input, timeoutMs, maxOutputBytes, onEnd): calls back with a
 * ProgramEnd, always after it has returned. The first three are lists as in `struct program`.
 * Throws TypeError for wrong arguments, an Error with `errno` when there is no thread or memory.
 */
napi_value run_program(napi_env env, napi_callback_info call);

/*
 * abandon(): for the end of the process, before which Node.js does not end the environment of its
 * main thread. Nobody is called back any more, and every program gets SIGTERM.
 */
napi_value abandon_programs(napi_env env, napi_callback_info call);

/* Tells who waits for a run that has come out of the outbox, and frees it. */
void settle_run(napi_env env, struct program_run *run);

/* For the end of an environment: abandons all runs, then, the outbox being empty, frees them. */
void abandon_runs(struct environment *environment);
void forget_runs(struct environment *environment);

#endif

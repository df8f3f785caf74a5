/*
 * A run of a program that stops nobody else. Plain C without Node-API: what is finished goes to an
 * outbox.
 *
 * Why not fork(2), as libuv does: it copies the page tables of the process and write-protects its
 * memory, on the thread that calls. posix_spawn(3) lends the memory to the child until the program
 * is in its place (CLONE_VM, CLONE_VFORK), and only the thread that calls waits for that. Each run
 * has a thread of its own. It is made by the thread that asks, so that the program is in that one's
 * network namespace.
 *
 * Who owns what: the functions below are for one thread, the owner's. The run's thread holds a
 * reference, too, and may outlive the owner. Only the run's own process is waited for, never any
 * other: those of libuv are libuv's.
 */
#ifndef PROGRAM_RUN_H
#define PROGRAM_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "outbox.h"
#include "receive-loop.h"

struct byte_range {
  const uint8_t *bytes;
  size_t length;
};

/* What is to be run; copied. A list is its strings one after another, each with its NUL. */
struct program {
  /* As in `struct launch`. */
  struct byte_range arguments;
  struct byte_range environment;
  struct byte_range folders;
  struct byte_range input;
  /* Of each of the two outputs. */
  size_t max_output_bytes;
  /* CLOCK_MONOTONIC. Then comes SIGTERM, a second later SIGKILL. */
  int64_t deadline_ns;
};

enum program_operation { PROGRAM_NONE, PROGRAM_START, PROGRAM_RUN };

struct program_result {
  /*
   * 0, or why there is no exit status. PROGRAM_START: an errno of `child_start`. PROGRAM_RUN:
   * ETIMEDOUT, EMSGSIZE (more output than allowed), ENOMEM or ECHILD (SIGCHLD is ignored: nobody
   * knows).
   */
  int error;
  enum program_operation operation;
  /* One of the two; the other is 0. */
  int exit_code;
  int signal;
  struct reply_buffer output;
  struct reply_buffer error_output;
};

/* Comes through the outbox when it is finished: then `context` and `result` are the owner's. */
struct program_run {
  struct outbox_item item;
  void *context;
  struct program_result result;
  /* For program-run.c. */
  struct program_state *state;
};

/*
 * Starts a thread that runs `program`. Returns 0 and the run, or an errno: EINVAL (a list does not
 * end with a NUL, or there is no program), ENOMEM, EAGAIN or EMFILE.
 */
int program_run_start(const struct program *program, struct outbox *outbox, void *context,
                      struct program_run **run);

/*
 * For an owner that ends: nothing is put into the outbox any more, and the program gets SIGTERM.
 * The thread sees to the rest, if the process lives on.
 */
void program_run_abandon(struct program_run *run);

/*
 * Gives back the owner's reference, after the run has come out of the outbox. One that was
 * abandoned may still lie in there: take what is left first.
 */
void program_run_release(struct program_run *run);

#endif

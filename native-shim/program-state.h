/*
 * What the owner's side of a run (program-run.c) and its thread (program-thread.c) share.
 */
#ifndef PROGRAM_STATE_H
#define PROGRAM_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "child.h"
#include "program-run.h"

struct program_state {
  atomic_int references;
  struct outbox *outbox;
  /* Readable once the run is abandoned. */
  int wake_fd;
  /* The call: a copy, and what points into it. */
  uint8_t *bytes;
  struct launch launch;
  struct byte_range input;
  size_t max_output_bytes;
  int64_t deadline_ns;
  pthread_mutex_t lock;
  /* Under the lock: the process while it is not reaped, or 0; its number may be another's later. */
  pid_t pid;
  bool is_abandoned;
};

/* The body of the run's thread; `run` is a `struct program_run` with a reference for it. */
void *program_thread(void *run);

#endif

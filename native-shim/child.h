/*
 * A process with pipes on its standard input, output and error output. All functions are for one
 * thread, which may wait.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "receive-loop.h"

/* Our ends of the pipes do not block; a descriptor is -1 once it is closed. */
struct child {
  pid_t pid;
  /* Readable when the process has ended; pidfd_open(2), -1 where the kernel has none (< 5.3). */
  int pid_fd;
  int input;
  int output;
  int error_output;
};

/* Lists end with NULL. */
struct launch {
  /* The first is the program: a path, or a name without a slash that is looked for in `folders`. */
  char *const *arguments;
  /* NAME=value */
  char *const *environment;
  /* Absolute, tried in this order. */
  char *const *folders;
};

/*
 * posix_spawn(3): the process begins with the calling thread's network namespace, default signal
 * dispositions, no blocked signals and no descriptors but 0 to 2. Returns 0 or an errno: that of
 * execve(2) (ENOENT: in no folder), of pipe2(2), or ENOMEM.
 */
int child_start(struct child *child, const struct launch *launch);

/* True when it has ended and is to be reaped; waitid(2). */
bool child_has_ended(const struct child *child);

/*
 * Writes what the pipe takes of `length` bytes, and closes it after the last one or when nobody
 * reads it. Returns how many were written.
 */
size_t child_feed(struct child *child, const uint8_t *bytes, size_t length);

/*
 * Appends what is in a pipe, `&child->output` or `&child->error_output`, to `buffer`, and closes it
 * at its end. Returns 0, EMSGSIZE when that would be more than `max_bytes`, ENOMEM, or an errno of
 * read(2); after any of them the pipe is closed.
 */
int child_collect(int *pipe, struct reply_buffer *buffer, size_t max_bytes);

/* Closes our ends; the process goes on. */
void child_close(struct child *child);

#endif

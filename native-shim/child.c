#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pipe holds 64 KB. */
enum { COLLECT_BYTES = 64 * 1024 };

/* The ends that become the descriptors 0, 1 and 2 of the process. */
struct far_ends {
  int fds[3];
};

static void close_once(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

void child_close(struct child *child) {
  close_once(&child->pid_fd);
  close_once(&child->input);
  close_once(&child->output);
  close_once(&child->error_output);
}

static void close_far_ends(struct far_ends *far) {
  for (int index = 0; index < 3; index++) close_once(&far->fds[index]);
}

/* One pipe; ours is the end to write into when the process reads, and the other way round. */
static int open_pipe(int *ours, int *theirs, bool process_reads) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return errno;
  *ours = fds[process_reads ? 1 : 0];
  *theirs = fds[process_reads ? 0 : 1];
  return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

static int open_pipes(struct child *child, struct far_ends *far) {
  int error = open_pipe(&child->input, &far->fds[0], true);
  if (error == 0) error = open_pipe(&child->output, &far->fds[1], false);
  if (error == 0) error = open_pipe(&child->error_output, &far->fds[2], false);
  return error;
}

/* Ours are closed by execve(2) anyway; this is for those of others in the process. */
static int set_descriptors(posix_spawn_file_actions_t *actions, const struct far_ends *far) {
  int error = 0;
  for (int fd = 0; fd < 3 && error == 0; fd++)
    error = posix_spawn_file_actions_adddup2(actions, far->fds[fd], fd);
#ifdef __GLIBC__
  if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
#endif
  return error;
}

/* The thread that calls has all signals blocked, and Node.js ignores SIGPIPE. */
static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (error == 0) error = posix_spawnattr_setsigdefault(attributes, &all);
  if (error == 0)
    error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return error;
}

static int spawn_file(struct child *child, const char *path, const struct launch *launch,
                      const struct far_ends *far) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawnattr_init(&attributes);
  if (error == 0) {
    error = set_descriptors(&actions, far);
    if (error == 0) error = set_signals(&attributes);
    if (error == 0)
      error = posix_spawn(&child->pid, path, &actions, &attributes, launch->arguments,
                          launch->environment);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* Looks before it starts, which is cheaper than a process that finds nothing. */
static int spawn_if_there(struct child *child, const char *path, const struct launch *launch,
                          const struct far_ends *far) {
  struct stat found;
  if (stat(path, &found) != 0) return errno;
  if (!S_ISREG(found.st_mode)) return EACCES;
  if (access(path, X_OK) != 0) return errno;
  return spawn_file(child, path, launch, far);
}

static int spawn_from(struct child *child, const char *folder, const struct launch *launch,
                      const struct far_ends *far) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/%s", folder, launch->arguments[0]);
  return length < (int)sizeof path ? spawn_if_there(child, path, launch, far) : ENOENT;
}

/* As execvp(3), but for two things: it starts no shell, and the folders are given. */
static int spawn(struct child *child, const struct launch *launch, const struct far_ends *far) {
  const char *name = launch->arguments[0];
  if (strchr(name, '/') != NULL) return spawn_if_there(child, name, launch, far);
  int result = ENOENT;
  for (char *const *folder = launch->folders; *folder != NULL; folder++) {
    int error = spawn_from(child, *folder, launch, far);
    if (error == EACCES) result = EACCES;
    else if (error != ENOENT && error != ENOTDIR) return error;
  }
  return result;
}

int child_start(struct child *child, const struct launch *launch) {
  *child = (struct child){.pid_fd = -1, .input = -1, .output = -1, .error_output = -1};
  struct far_ends far = {{-1, -1, -1}};
  int error = open_pipes(child, &far);
  if (error == 0) error = spawn(child, launch, &far);
  close_far_ends(&far);
  if (error == 0) child->pid_fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
  else child_close(child);
  return error;
}

bool child_has_ended(const struct child *child) {
  siginfo_t info = {0};
  int result;
  do result = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
  while (result != 0 && errno == EINTR);
  return result != 0 || info.si_pid == child->pid;
}

size_t child_feed(struct child *child, const uint8_t *bytes, size_t length) {
  size_t written = 0;
  while (child->input >= 0 && written < length) {
    ssize_t count = write(child->input, bytes + written, length - written);
    if (count >= 0) written += (size_t)count;
    else if (errno == EAGAIN) return written;
    else if (errno != EINTR) close_once(&child->input);
  }
  close_once(&child->input);
  return written;
}

/* Reads once. Returns 0, EAGAIN (nothing more now), ENODATA (the end), or what went wrong. */
static int read_piece(int pipe, struct reply_buffer *buffer, size_t max_bytes) {
  int error = reply_buffer_grow(buffer, buffer->length + COLLECT_BYTES);
  if (error != 0) return error;
  ssize_t count = read(pipe, buffer->bytes + buffer->length, COLLECT_BYTES);
  if (count == 0) return ENODATA;
  if (count < 0) return errno == EINTR ? 0 : errno;
  if ((size_t)count > max_bytes - buffer->length) return EMSGSIZE;
  buffer->length += (size_t)count;
  return 0;
}

int child_collect(int *pipe, struct reply_buffer *buffer, size_t max_bytes) {
  int error = 0;
  while (*pipe >= 0 && error == 0) error = read_piece(*pipe, buffer, max_bytes);
  if (error == 0 || error == EAGAIN) return 0;
  close_once(pipe);
  return error == ENODATA ? 0 : error;
}

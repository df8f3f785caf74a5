#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "program-state.h"

/* Between SIGTERM and SIGKILL, and between SIGKILL and waiting no longer. */
#define STOP_STEP_NS ((int64_t)1000000000)

/* How often a process is looked at where the kernel cannot tell of its end. */
enum { LOOK_MS = 10 };

/* What the thread remembers while the program runs. */
struct attendance {
  const struct program_state *state;
  struct program_result *result;
  struct child child;
  /* Of the input, so far. */
  size_t written;
  /* When the next signal is due, and how many were sent: SIGTERM, then SIGKILL. */
  int64_t due_ns;
  int signals_sent;
  bool heeds_owner;
};

/* The first reason stays. */
static void note(struct program_result *result, int error) {
  if (error == 0 || result->error != 0) return;
  result->error = error;
  result->operation = PROGRAM_RUN;
}

/* Waits until there is something to do. Returns true once, when the run has been abandoned. */
static bool wait_for_something(struct attendance *attendance) {
  const struct child *child = &attendance->child;
  struct pollfd sources[] = {
      {.fd = attendance->heeds_owner ? attendance->state->wake_fd : -1, .events = POLLIN},
      {.fd = child->pid_fd, .events = POLLIN},
      {.fd = child->input, .events = POLLOUT},
      {.fd = child->output, .events = POLLIN},
      {.fd = child->error_output, .events = POLLIN},
  };
  int wait_ms = remaining_ms(attendance->due_ns);
  if (child->pid_fd < 0 && wait_ms > LOOK_MS) wait_ms = LOOK_MS;
  if (poll(sources, sizeof sources / sizeof sources[0], wait_ms) <= 0) return false;
  if (sources[0].revents == 0) return false;
  attendance->heeds_owner = false;
  return true;
}

static void feed(struct attendance *attendance) {
  const struct byte_range *input = &attendance->state->input;
  size_t written = attendance->written;
  attendance->written +=
      child_feed(&attendance->child, input->bytes + written, input->length - written);
}

static int collect(struct attendance *attendance) {
  struct child *child = &attendance->child;
  struct program_result *result = attendance->result;
  size_t most = attendance->state->max_output_bytes;
  int error = child_collect(&child->output, &result->output, most);
  int other = child_collect(&child->error_output, &result->error_output, most);
  return error != 0 ? error : other;
}

/* Sends the next signal. Returns false when there is none left: nobody waits any longer. */
static bool send_next_signal(struct attendance *attendance) {
  static const int signals[] = {SIGTERM, SIGKILL};
  if (attendance->signals_sent == 2) return false;
  kill(attendance->child.pid, signals[attendance->signals_sent++]);
  attendance->due_ns = monotonic_ns() + STOP_STEP_NS;
  return true;
}

/* Until the process has ended. Returns false when not even SIGKILL ends it. */
static bool attend(struct attendance *attendance) {
  feed(attendance);
  while (!child_has_ended(&attendance->child)) {
    bool must_stop = wait_for_something(attendance);
    feed(attendance);
    int error = collect(attendance);
    if (error == 0 && monotonic_ns() >= attendance->due_ns) error = ETIMEDOUT;
    note(attendance->result, error);
    if ((must_stop || error != 0) && !send_next_signal(attendance)) return false;
  }
  note(attendance->result, collect(attendance));
  return true;
}

/* Lets the owner know the process, and stops it if the owner has gone meanwhile. */
static void publish(struct program_state *state, pid_t pid) {
  pthread_mutex_lock(&state->lock);
  state->pid = pid;
  if (state->is_abandoned) kill(pid, SIGTERM);
  pthread_mutex_unlock(&state->lock);
}

/* Waits for the end; the number is freed under the lock, so that the owner signals nobody else. */
static int reap(struct program_state *state, pid_t pid, int *status) {
  siginfo_t info;
  while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
  pthread_mutex_lock(&state->lock);
  int error = waitpid(pid, status, 0) == pid ? 0 : errno;
  state->pid = 0;
  pthread_mutex_unlock(&state->lock);
  return error;
}

static void note_status(struct program_result *result, int status) {
  if (WIFSIGNALED(status)) result->signal = WTERMSIG(status);
  else result->exit_code = WEXITSTATUS(status);
}

/* From here on `run->result` is the owner's. */
static void deliver(struct program_run *run) {
  struct program_state *state = run->state;
  pthread_mutex_lock(&state->lock);
  if (!state->is_abandoned) outbox_put(state->outbox, &run->item);
  pthread_mutex_unlock(&state->lock);
}

/* A process that the kernel does not let go of is reaped when it does; nobody waits for that. */
static void see_to_end(struct program_run *run, struct attendance *attendance) {
  pid_t pid = attendance->child.pid;
  int status = 0;
  publish(run->state, pid);
  bool has_ended = attend(attendance);
  child_close(&attendance->child);
  if (has_ended) {
    note(&run->result, reap(run->state, pid, &status));
    note_status(&run->result, status);
  }
  deliver(run);
  if (!has_ended) reap(run->state, pid, &status);
}

void *program_thread(void *argument) {
  struct program_run *run = argument;
  struct attendance attendance = {.state = run->state,
                                  .result = &run->result,
                                  .due_ns = run->state->deadline_ns,
                                  .heeds_owner = true};
  run->result.error = child_start(&attendance.child, &run->state->launch);
  if (run->result.error == 0) {
    see_to_end(run, &attendance);
  } else {
    run->result.operation = PROGRAM_START;
    deliver(run);
  }
  program_run_release(run);
  return NULL;
}

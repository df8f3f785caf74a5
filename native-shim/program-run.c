#include "program-run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "program-state.h"
#include "thread.h"

/* An empty list is one, too. */
static bool is_list(struct byte_range range) {
  return range.length == 0 || range.bytes[range.length - 1] == 0;
}

/* Copies behind what is there already. */
static const uint8_t *append(uint8_t **end, struct byte_range range) {
  uint8_t *start = *end;
  if (range.length > 0) memcpy(start, range.bytes, range.length);
  *end += range.length;
  return start;
}

/* Copies the strings of a list, with a NULL after the last; NULL: no memory. */
static char *const *append_list(uint8_t **end, struct byte_range list) {
  char *string = (char *)append(end, list);
  size_t count = 0;
  for (size_t at = 0; at < list.length; at++) count += list.bytes[at] == 0;
  char **strings = calloc(count + 1, sizeof *strings);
  if (strings == NULL) return NULL;
  for (size_t index = 0; index < count; index++) {
    strings[index] = string;
    string += strlen(string) + 1;
  }
  return strings;
}

static bool copy_call(struct program_state *state, const struct program *program) {
  state->max_output_bytes = program->max_output_bytes;
  state->deadline_ns = program->deadline_ns;
  state->bytes = malloc(program->arguments.length + program->environment.length +
                        program->folders.length + program->input.length);
  if (state->bytes == NULL) return false;
  uint8_t *end = state->bytes;
  struct launch *launch = &state->launch;
  launch->arguments = append_list(&end, program->arguments);
  launch->environment = append_list(&end, program->environment);
  launch->folders = append_list(&end, program->folders);
  state->input = (struct byte_range){append(&end, program->input), program->input.length};
  return launch->arguments != NULL && launch->environment != NULL && launch->folders != NULL;
}

static void state_free(struct program_state *state) {
  if (state->wake_fd >= 0) close(state->wake_fd);
  free((void *)state->launch.arguments);
  free((void *)state->launch.environment);
  free((void *)state->launch.folders);
  free(state->bytes);
  pthread_mutex_destroy(&state->lock);
  free(state);
}

void program_run_release(struct program_run *run) {
  if (atomic_fetch_sub(&run->state->references, 1) != 1) return;
  reply_buffer_free(&run->result.output);
  reply_buffer_free(&run->result.error_output);
  state_free(run->state);
  free(run);
}

/* With one reference; NULL: no memory. */
static struct program_run *run_create(struct outbox *outbox, void *context) {
  struct program_run *run = calloc(1, sizeof *run);
  struct program_state *state = calloc(1, sizeof *state);
  if (run == NULL || state == NULL) {
    free(run);
    free(state);
    return NULL;
  }
  pthread_mutex_init(&state->lock, NULL);
  atomic_init(&state->references, 1);
  state->outbox = outbox;
  state->wake_fd = -1;
  run->item.kind = OUTBOX_PROGRAM_RUN;
  run->context = context;
  run->state = state;
  return run;
}

/* The thread's reference is counted before there is a thread. */
static int start(struct program_run *run, const struct program *program) {
  struct program_state *state = run->state;
  if (!copy_call(state, program)) return ENOMEM;
  state->wake_fd = eventfd(0, EFD_CLOEXEC);
  if (state->wake_fd < 0) return errno;
  atomic_fetch_add(&state->references, 1);
  int error = thread_start(program_thread, run);
  if (error != 0) atomic_fetch_sub(&state->references, 1);
  return error;
}

int program_run_start(const struct program *program, struct outbox *outbox, void *context,
                      struct program_run **run) {
  bool has_lists = is_list(program->arguments) && is_list(program->environment) &&
                   is_list(program->folders) && program->arguments.length > 0;
  if (!has_lists) return EINVAL;
  struct program_run *started = run_create(outbox, context);
  if (started == NULL) return ENOMEM;
  int error = start(started, program);
  if (error == 0) *run = started;
  else program_run_release(started);
  return error;
}

void program_run_abandon(struct program_run *run) {
  struct program_state *state = run->state;
  pthread_mutex_lock(&state->lock);
  state->is_abandoned = true;
  if (state->pid != 0) kill(state->pid, SIGTERM);
  eventfd_write(state->wake_fd, 1);
  pthread_mutex_unlock(&state->lock);
}

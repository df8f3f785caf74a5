/* Programs beside the thread that asks for them: shells, as far as a case allows. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "program-run.h"

enum { PATIENCE_MS = 20000, OUTPUT_BYTES = 1000000 };

/* Of a literal, whose last NUL the compiler adds. */
#define LIST_INITIALIZER(literal) {(const uint8_t *)(literal), sizeof(literal)}
#define LIST(literal) ((struct byte_range)LIST_INITIALIZER(literal))

/* Ends by SIGKILL alone. */
static const struct byte_range stubborn =
    LIST_INITIALIZER("sh\0-c\0trap '' TERM; while :; do sleep 0.1; done");

static struct byte_range text_range(const char *text) {
  return (struct byte_range){(const uint8_t *)text, strlen(text)};
}

/* A call as it usually is; `arguments` is a LIST. */
static struct program program_for(struct byte_range arguments) {
  return (struct program){.arguments = arguments,
                          .environment = LIST("PATH=/usr/bin:/bin\0LC_ALL=C"),
                          .folders = LIST("/usr/bin\0/bin"),
                          .max_output_bytes = OUTPUT_BYTES,
                          .deadline_ns = in_ms(PATIENCE_MS)};
}

static struct program_run *start(struct owner *owner, const struct program *program) {
  struct program_run *run = NULL;
  CHECK_EQUAL(program_run_start(program, owner->outbox, owner, &run), 0);
  return run;
}

static struct program_run *next_run(struct owner *owner) {
  struct outbox_item *item = next_item(owner);
  CHECK_EQUAL(item->kind, OUTBOX_PROGRAM_RUN);
  return (struct program_run *)item;
}

/* Runs it and waits for its end. */
static struct program_run *finished(struct owner *owner, const struct program *program) {
  struct program_run *run = start(owner, program);
  CHECK(next_run(owner) == run && run->context == owner);
  return run;
}

static void expect_text(const struct reply_buffer *buffer, const char *text) {
  if (buffer->length != strlen(text) || memcmp(buffer->bytes, text, buffer->length) != 0)
    fprintf(stderr, "got: %.*s\n", (int)buffer->length, (const char *)buffer->bytes);
  CHECK_EQUAL(buffer->length, strlen(text));
  CHECK(memcmp(buffer->bytes, text, buffer->length) == 0);
}

static void expect_failure(struct owner *owner, const struct program *program, int error,
                           enum program_operation operation) {
  struct program_run *run = finished(owner, program);
  CHECK_EQUAL(run->result.error, error);
  CHECK_EQUAL(run->result.operation, operation);
  program_run_release(run);
}

static void tells_how_it_ended(void) {
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("sh\0-c\0cat; echo \"$1\" >&2; exit 7\0-\0two  words"));
  program.input = text_range("input");
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, 0);
  CHECK_EQUAL(run->result.exit_code, 7);
  CHECK_EQUAL(run->result.signal, 0);
  expect_text(&run->result.output, "input");
  expect_text(&run->result.error_output, "two  words\n");
  program_run_release(run);

  program = program_for(LIST("sh\0-c\0kill -11 $$"));
  run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, 0);
  CHECK_EQUAL(run->result.exit_code, 0);
  CHECK_EQUAL(run->result.signal, SIGSEGV);
  program_run_release(run);
  stop_owner(&owner);
}

/* More than a pipe holds, in both directions at the same time. */
static void carries_large_input_and_output(void) {
  struct owner owner;
  start_owner(&owner);
  uint8_t *bytes = malloc(OUTPUT_BYTES);
  CHECK(bytes != NULL);
  for (size_t index = 0; index < OUTPUT_BYTES; index++) bytes[index] = (uint8_t)(index * 7 >> 3);
  struct program program = program_for(LIST("cat"));
  program.input = (struct byte_range){bytes, OUTPUT_BYTES};
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, 0);
  CHECK_EQUAL(run->result.output.length, OUTPUT_BYTES);
  CHECK(memcmp(run->result.output.bytes, bytes, OUTPUT_BYTES) == 0);
  program_run_release(run);
  free(bytes);
  stop_owner(&owner);
}

static void says_why_it_did_not_begin(void) {
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("no-such-program"));
  expect_failure(&owner, &program, ENOENT, PROGRAM_START);
  program = program_for(LIST("/no/such/program"));
  expect_failure(&owner, &program, ENOENT, PROGRAM_START);
  program = program_for(LIST("/etc/passwd"));
  expect_failure(&owner, &program, EACCES, PROGRAM_START);
  program = program_for(LIST("passwd"));
  program.folders = LIST("/no/such/folder\0/etc\0/etc/passwd");
  expect_failure(&owner, &program, EACCES, PROGRAM_START);

  struct program_run *run = NULL;
  program = program_for((struct byte_range){0});
  CHECK_EQUAL(program_run_start(&program, owner.outbox, NULL, &run), EINVAL);
  program = program_for(text_range("true"));
  CHECK_EQUAL(program_run_start(&program, owner.outbox, NULL, &run), EINVAL);
  stop_owner(&owner);
}

/* A folder of that name, and a file that may not be run, are not what is meant. */
static void looks_on_in_the_next_folder(void) {
  char folder[] = "/tmp/driver-XXXXXX";
  char path[64], folders[64];
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/true", folder);
  CHECK_EQUAL(mkdir(path, 0755), 0);
  int length = snprintf(folders, sizeof folders, "%s%c/usr/bin", folder, 0) + 1;
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("true"));
  program.folders = (struct byte_range){(const uint8_t *)folders, (size_t)length};
  expect_failure(&owner, &program, 0, PROGRAM_NONE);
  CHECK_EQUAL(rmdir(path), 0);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  CHECK(fd >= 0);
  close(fd);
  expect_failure(&owner, &program, 0, PROGRAM_NONE);
  CHECK_EQUAL(unlink(path), 0);
  CHECK_EQUAL(rmdir(folder), 0);
  stop_owner(&owner);
}

static void expect_output(struct owner *owner, struct byte_range arguments, const char *text) {
  struct program program = program_for(arguments);
  struct program_run *run = finished(owner, &program);
  expect_text(&run->result.output, text);
  program_run_release(run);
}

/* Signals 1 to 28, as seven digits: the C library keeps higher ones for itself. */
static void inherits_nothing_it_should_not(void) {
  struct owner owner;
  start_owner(&owner);
  int inheritable = open("/dev/null", O_RDONLY);
  CHECK(inheritable > 2);
  signal(SIGPIPE, SIG_IGN);
#ifdef __GLIBC__
  expect_output(
      &owner,
      LIST("sh\0-c\0for fd in `seq 0 99`; do [ ! -e /proc/$$/fd/$fd ] || echo $fd; done"),
      "0\n1\n2\n");
#endif
  expect_output(&owner,
                LIST("sed\0-nE\0s/^(Sig(Blk|Ign)).*(.{7})$/\\1 \\3/p\0/proc/self/status"),
                "SigBlk 0000000\nSigIgn 0000000\n");
  expect_output(&owner, LIST("env"), "PATH=/usr/bin:/bin\nLC_ALL=C\n");
  signal(SIGPIPE, SIG_DFL);
  close(inheritable);
  stop_owner(&owner);
}

/* A thread in a network namespace of its own; the driver stays where it is. */
static void *run_in_own_namespace(void *argument) {
  struct owner *owner = argument;
  char before[64] = {0}, here[64] = {0};
  CHECK(readlink("/proc/thread-self/ns/net", before, sizeof before - 1) > 0);
  CHECK(unshare(CLONE_NEWNET) == 0);
  CHECK(readlink("/proc/thread-self/ns/net", here, sizeof here - 1) > 0);
  CHECK(strcmp(before, here) != 0);
  strcat(here, "\n");
  struct program program = program_for(LIST("readlink\0/proc/self/ns/net"));
  struct program_run *run = finished(owner, &program);
  expect_text(&run->result.output, here);
  program_run_release(run);
  return NULL;
}

static void is_in_the_namespace_of_who_asks(void) {
  struct owner owner;
  start_owner(&owner);
  pthread_t thread;
  CHECK_EQUAL(pthread_create(&thread, NULL, run_in_own_namespace, &owner), 0);
  pthread_join(thread, NULL);
  stop_owner(&owner);
}

static void stops_what_takes_too_long(void) {
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("sleep\0" "60"));
  program.deadline_ns = in_ms(20);
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, ETIMEDOUT);
  CHECK_EQUAL(run->result.signal, SIGTERM);
  program_run_release(run);

  int64_t begin = monotonic_ns();
  program = program_for(stubborn);
  program.deadline_ns = in_ms(100);
  run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, ETIMEDOUT);
  CHECK_EQUAL(run->result.signal, SIGKILL);
  CHECK(monotonic_ns() - begin >= (int64_t)1000 * MS);
  program_run_release(run);
  stop_owner(&owner);
}

static void stops_what_says_too_much(void) {
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("yes"));
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, EMSGSIZE);
  CHECK_EQUAL(run->result.operation, PROGRAM_RUN);
  CHECK(run->result.output.length <= OUTPUT_BYTES);
  program_run_release(run);
  program = program_for(LIST("sh\0-c\0yes >&2"));
  expect_failure(&owner, &program, EMSGSIZE, PROGRAM_RUN);
  program = program_for(LIST("printf\0" "12345"));
  program.max_output_bytes = 5;
  expect_failure(&owner, &program, 0, PROGRAM_NONE);
  program.max_output_bytes = 4;
  expect_failure(&owner, &program, EMSGSIZE, PROGRAM_RUN);
  stop_owner(&owner);
}

/* What it leaves behind has its outputs still open. */
static void does_not_wait_for_what_it_left_behind(void) {
  struct owner owner;
  start_owner(&owner);
  struct program program = program_for(LIST("sh\0-c\0sleep 60 & echo $!"));
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, 0);
  char text[32] = {0};
  CHECK(run->result.output.length < sizeof text);
  memcpy(text, run->result.output.bytes, run->result.output.length);
  CHECK_EQUAL(kill(atoi(text), SIGKILL), 0);
  program_run_release(run);
  stop_owner(&owner);
}

static void sees_the_end_without_pid_fds(void) {
  struct owner owner;
  start_owner(&owner);
  hide_pid_fds(true);
  struct program program = program_for(LIST("sh\0-c\0exec >&- 2>&- <&-; sleep 0.05; exit 5"));
  struct program_run *run = finished(&owner, &program);
  CHECK_EQUAL(run->result.error, 0);
  CHECK_EQUAL(run->result.exit_code, 5);
  program_run_release(run);
  hide_pid_fds(false);
  stop_owner(&owner);
}

/* An owner that ends: whatever the run is at, its process ends, is reaped, and nothing is told. */
static void outlives_its_owner_and_reaps(void) {
  enum { COUNT = 60 };
  struct program_run *runs[COUNT];
  struct owner owner;
  start_owner(&owner);
  for (int index = 0; index < COUNT; index++) {
    struct program program = program_for(LIST("sleep\0" "60"));
    if (index % 3 == 0) program = program_for(LIST("true"));
    if (index == 1) program = program_for(stubborn);
    runs[index] = start(&owner, &program);
    if (index == 1) pause_ms(200);
    if (index % 2 == 0) pause_ms(index % 10);
    program_run_abandon(runs[index]);
  }
  while (outbox_take(owner.outbox) != NULL) continue;
  for (int index = 0; index < COUNT; index++) program_run_release(runs[index]);
  stop_owner(&owner);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* Several at once, beside a process of somebody else, which stays his to reap. */
static void leaves_nothing_behind_and_others_alone(void) {
  struct owner owner;
  start_owner(&owner);
  int before = count_entries("/proc/self/fd");
  pid_t other = fork();
  if (other == 0) execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
  for (int round = 0; round < 25; round++) {
    struct program program = program_for(LIST("sh\0-c\0read line; exit $line"));
    program.input = text_range("6\n");
    for (int index = 0; index < 4; index++) start(&owner, &program);
    for (int index = 0; index < 4; index++) {
      struct program_run *run = next_run(&owner);
      CHECK_EQUAL(run->result.exit_code, 6);
      program_run_release(run);
    }
  }
  int status = 0;
  CHECK_EQUAL(waitpid(other, &status, 0), other);
  CHECK_EQUAL(WEXITSTATUS(status), 3);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
  wait_for_threads();
  CHECK_EQUAL(count_entries("/proc/self/fd"), before);
  stop_owner(&owner);
}

void run_program_cases(void) {
  static const struct test_case cases[] = {
      {"a program ends with its exit code or signal and what it wrote", tells_how_it_ended},
      {"a program reads and writes more than a pipe holds", carries_large_input_and_output},
      {"a program that does not begin says why", says_why_it_did_not_begin},
      {"a program is looked for in every folder", looks_on_in_the_next_folder},
      {"a program has descriptors, signals and environment of its own",
       inherits_nothing_it_should_not},
      {"a program is in the network namespace of who asks", is_in_the_namespace_of_who_asks},
      {"a program that takes too long is stopped, then killed", stops_what_takes_too_long},
      {"a program that says too much is stopped", stops_what_says_too_much},
      {"a program's end does not wait for what it left behind",
       does_not_wait_for_what_it_left_behind},
      {"a program's end is seen without pidfd_open", sees_the_end_without_pid_fds},
      {"a run outlives its owner, its process does not", outlives_its_owner_and_reaps},
      {"100 programs leave nothing behind, and others' processes alone",
       leaves_nothing_behind_and_others_alone},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}

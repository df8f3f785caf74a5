/*
 * Runs the shim without Node.js, with scripted, real and random replies, and with each Node-API
 * call failing in turn. Built with sanitizers and run under valgrind. `driver [rounds of random
 * replies [recordings…]]`.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "check.h"

/*
 * Setting `lo` up and down causes events, which requires a separate network namespace. Called
 * before any thread exists.
 */
static void enter_namespace(void) {
  if (unshare(CLONE_NEWNET) == 0) return;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) return;
  fprintf(stderr, "Cannot enter a network namespace: %s; run as root\n", strerror(errno));
  exit(1);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20000;
  enter_namespace();
  count_threads_at_start();
  run_exchange_cases();
  run_kernel_cases();
  run_socket_cases();
  run_addon_cases();
  int recordings = 0;
  for (int index = 2; index < argc; index++) recordings += load_recording(argv[index]);
  int64_t start = monotonic_ns();
  run_mutations(rounds);
  printf("ok  %5lld ms  %d rounds of random replies, %d datagrams recorded\n",
         (long long)(monotonic_ns() - start) / MS, rounds, recordings);
  return 0;
}

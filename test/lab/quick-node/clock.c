/*
 * Tells Node.js the time without a system call.
 *
 * Half of Node.js's system calls read the time. On other machines, the kernel answers them from
 * memory that it shares with the process. User-mode Linux stops the process for each of them, as
 * for any other system call, which takes 15 µs or more. This library (LD_PRELOAD) replaces
 * clock_gettime(2) for CLOCK_MONOTONIC and CLOCK_REALTIME: it adds the ticks of the processor's
 * time stamp counter to the kernel's last answer, and asks the kernel again every 10 ms.
 *
 * The counter's frequency is computed from the first and the last answer. While these are less than
 * 10 ms apart, the result is used only for as long as the time between them. The error therefore
 * stays within the uncertainty of one answer, which is a few microseconds. Each thread counts
 * separately.
 */
#define _GNU_SOURCE
#include "is-node.h"
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SECOND_NS 1000000000ll
#define LONGEST_COUNT_NS 10000000
#define SHORTEST_COUNT_NS 500000
/*
 * Maximum duration of an answer in ticks, about 0.1 ms. If an answer takes longer, another process
 * ran in between.
 */
#define MOST_TICKS_OF_ANSWER 200000
/*
 * CPUID 80000007H, EDX: the counter has a constant frequency, regardless of the processor's power
 * state.
 */
#define INVARIANT_COUNTER (1u << 8)

struct answer {
  int64_t ns;
  uint64_t ticks;
};

struct count {
  struct answer first, last;
  /* 0 if the two answers are not far enough apart. */
  double ns_per_tick;
  /*
   * The last answer. If the counter was ahead of the kernel, CLOCK_MONOTONIC must still not go
   * back.
   */
  int64_t answered_ns;
};

static char is_usable;
static __thread struct count counts[2] __attribute__((tls_model("initial-exec")));

__attribute__((constructor(AFTER_IS_NODE))) static void look(void) {
  unsigned a, b, c, d = 0;
  is_usable = is_node && __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & INVARIANT_COUNTER);
}

/* Whether the last answer is recent enough to count from it. */
static int count_on(const struct count *count, int64_t *ns) {
  if (count->ns_per_tick == 0) return 0;
  int64_t known = count->last.ns - count->first.ns;
  double since = (double)(__rdtsc() - count->last.ticks) * count->ns_per_tick;
  if (since > (double)(known < LONGEST_COUNT_NS ? known : LONGEST_COUNT_NS)) return 0;
  *ns = count->last.ns + (int64_t)since;
  return 1;
}

/* Whether CLOCK_REALTIME was set, so that the computed frequency is invalid. */
static int was_set(const struct count *count) {
  if (count->ns_per_tick == 0) return count->last.ns < count->first.ns;
  double since = (double)(count->last.ticks - count->first.ticks) * count->ns_per_tick;
  double difference = since - (double)(count->last.ns - count->first.ns);
  return difference > SECOND_NS || difference < -SECOND_NS;
}

static int ask(clockid_t clock, struct count *count, int64_t *ns) {
  struct timespec time;
  uint64_t before = __rdtsc();
  if (syscall(SYS_clock_gettime, clock, &time) != 0) return -1;
  uint64_t ticks = __rdtsc() - before;
  *ns = time.tv_sec * SECOND_NS + time.tv_nsec;
  if (ticks > MOST_TICKS_OF_ANSWER) return 0;
  count->last = (struct answer){.ns = *ns, .ticks = before + ticks / 2};
  if (count->first.ns == 0 || was_set(count)) {
    count->first = count->last;
    count->ns_per_tick = 0;
  }
  int64_t known = count->last.ns - count->first.ns;
  if (known >= SHORTEST_COUNT_NS)
    count->ns_per_tick = (double)known / (double)(count->last.ticks - count->first.ticks);
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!is_usable || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
    return (int)syscall(SYS_clock_gettime, clock, time);
  struct count *count = &counts[clock];
  int64_t ns;
  if (!count_on(count, &ns) && ask(clock, count, &ns) != 0) return -1;
  if (clock == CLOCK_MONOTONIC && ns < count->answered_ns) ns = count->answered_ns;
  count->answered_ns = ns;
  time->tv_sec = ns / SECOND_NS;
  time->tv_nsec = ns % SECOND_NS;
  return 0;
}

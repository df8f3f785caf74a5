/*
 * Tests whether a process's extended registers are preserved. `keep-registers ROUNDS` fills some
 * registers with its own values, makes a system call, touches a new page, and compares the
 * registers. It does this in two processes with two threads each, while signals arrive whose
 * handler uses the same registers. Prints `kept`, or the lost values with exit status 1.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
/* Number of pages that are mapped and touched one by one, and then mapped again. */
#define PAGES 64
/* MXCSR: all exceptions are masked; bits 13 and 14 are the rounding mode. */
#define CONTROL 0x1f80u

static long rounds;

struct values {
  uint64_t first[2], last[2];
  uint32_t control;
};

/*
 * System call 39 is getpid. The registers must not be used in between, so this is a single piece of
 * assembly.
 */
static void carry(uint64_t value, uint32_t control, char *page, struct values *after) {
  __asm__ volatile(
      "ldmxcsr %[control]\n"
      "movq %[value], %%xmm0\n"
      "punpcklqdq %%xmm0, %%xmm0\n"
      "movdqa %%xmm0, %%xmm15\n"
      "movl $39, %%eax\n"
      "syscall\n"
      "movb $1, (%[page])\n"
      "movl $39, %%eax\n"
      "syscall\n"
      "movdqu %%xmm0, %[first]\n"
      "movdqu %%xmm15, %[last]\n"
      "stmxcsr %[after]\n"
      : [first] "=m"(after->first), [last] "=m"(after->last), [after] "=m"(after->control)
      : [value] "r"(value), [control] "m"(control), [page] "r"(page)
      : "rax", "rcx", "r11", "xmm0", "xmm15", "memory");
}

static void on_alarm(int number) {
  (void)number;
  __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\npxor %%xmm15, %%xmm15\n" ::: "xmm0", "xmm15");
}

/* The values differ from those of other threads and rounds. */
static void *try_rounds(void *begin) {
  uint64_t value = (uint64_t)begin;
  char *pages = NULL;
  for (long round = 0; round < rounds; round++, value += 16) {
    if (round % PAGES == 0) {
      if (pages != NULL) munmap(pages, PAGES * PAGE);
      pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED) exit(2);
    }
    uint32_t control = CONTROL | (uint32_t)(value / 16 % 4) << 13;
    struct values after;
    carry(value, control, pages + round % PAGES * PAGE, &after);
    if (after.first[0] == value && after.first[1] == value && after.last[0] == value &&
        after.last[1] == value && (after.control & ~0x3fu) == control)
      continue;
    printf("round %ld: %lx is %lx %lx %lx %lx, control %x is %x\n", round, value, after.first[0],
           after.first[1], after.last[0], after.last[1], control, after.control);
    exit(1);
  }
  return NULL;
}

int main(int count, char **arguments) {
  rounds = count > 1 ? atol(arguments[1]) : 1000;
  pid_t child = fork();
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
  setitimer(ITIMER_REAL, &often, NULL);
  pthread_t thread;
  uint64_t begin = child == 0 ? 1 : 3;
  if (pthread_create(&thread, NULL, try_rounds, (void *)begin) != 0) return 2;
  try_rounds((void *)(begin + 1));
  pthread_join(thread, NULL);
  if (child == 0) return 0;
  int status;
  while (waitpid(child, &status, 0) < 0) continue;
  if (status != 0) return 1;
  puts("kept");
  return 0;
}

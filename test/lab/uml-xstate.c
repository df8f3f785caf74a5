/*
 * Lets user-mode Linux 6.1 run on processors whose register state is larger than it knows.
 *
 * The lab kernel keeps 2,696 bytes of register state per task (everything up to AVX-512 and protection
 * keys). Where the processor has more (AMX: 11,008 bytes), reading works, cut short, but the machine's
 * kernel refuses to write back less than the whole: ptrace(PTRACE_SETREGSET, NT_X86_XSTATE) fails with
 * EFAULT and the lab kernel panics before its first process runs. This library stands in front of
 * ptrace(2) (LD_PRELOAD) and pads such a write with the initial state of the missing components. Those
 * are AMX's tiles, which a process may not use before it asked arch_prctl(2) for them; none here does.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* XSAVE header, Intel SDM volume 1, 13.4.2: the bitmap of components that are not in initial state. */
#define XSTATE_BV_OFFSET 512
/* Components 0 to 9: x87 to protection keys; what lies within 2,696 bytes. */
#define COMPONENTS_KEPT 0x3ffull
#define STATE_MAX 65536

static unsigned char state[STATE_MAX] __attribute__((aligned(64)));

/* Bytes of register state on this processor, as the kernel reports them for a traced process. */
static size_t state_size(pid_t pid) {
  static size_t size;
  if (size == 0) {
    struct iovec all = {.iov_base = state, .iov_len = sizeof(state)};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &all) == 0)
      size = all.iov_len;
  }
  return size;
}

static long write_padded(pid_t pid, const struct iovec *given) {
  uint64_t components;
  size_t size = state_size(pid);
  memset(state, 0, sizeof(state));
  memcpy(state, given->iov_base, given->iov_len);
  memcpy(&components, state + XSTATE_BV_OFFSET, sizeof(components));
  components &= COMPONENTS_KEPT;
  memcpy(state + XSTATE_BV_OFFSET, &components, sizeof(components));
  struct iovec whole = {.iov_base = state, .iov_len = size};
  return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...) {
  va_list arguments;
  va_start(arguments, request);
  pid_t pid = va_arg(arguments, pid_t);
  void *address = va_arg(arguments, void *);
  void *data = va_arg(arguments, void *);
  va_end(arguments);

  if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE) {
    const struct iovec *given = data;
    if (given->iov_len >= XSTATE_BV_OFFSET + 64 && given->iov_len < state_size(pid))
      return write_padded(pid, given);
  }
  /* The system call stores a peeked word where glibc's function returns it: ptrace(2), NOTES. */
  if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
    long word = 0;
    long result = syscall(SYS_ptrace, request, pid, address, &word);
    if (result < 0) return result;
    errno = 0;
    return word;
  }
  return syscall(SYS_ptrace, request, pid, address, data);
}

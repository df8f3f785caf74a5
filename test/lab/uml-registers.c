/*
 * How user-mode Linux moves the extended registers (x87, SSE, AVX) of its processes: seldom, and on every processor.
 *
 * The lab kernel reads them whenever a process stops and writes them before it goes on, with ptrace(2): for each system
 * call of a process, although they are nearly always what they were. A write takes a fifth of the whole stop: the
 * machine's kernel allocates a buffer for it and checks what is in it. This library stands in front of ptrace(2)
 * (LD_PRELOAD) and remembers what the registers of a stopped process hold:
 *
 * - in one stop they are read once;
 * - they are written when the process goes on, once, and only where they hold something else.
 *
 * With PTRACE_CONT the process does not go on with its own code but with a piece of the lab kernel (its stub), which
 * does not need these registers and may change them: they are written after it, before the process's own code.
 *
 * The lab kernel (6.1) keeps 2,696 bytes of them (everything up to AVX-512 and protection keys). Where the processor has
 * more (AMX: 11,008 bytes), reading works, cut short, but the machine's kernel refuses to write back less than the
 * whole: EFAULT, and the lab kernel panics before its first process runs. Such a write is padded with the initial state
 * of the missing components. Those are AMX's tiles, which a process may not use before it asked arch_prctl(2) for them;
 * none here does.
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
/* What user-mode Linux calls PTRACE_SETOPTIONS by: its number before Linux 2.6. */
#define PTRACE_OLDSETOPTIONS 21
/* What a lab kernel asks for is not larger. */
#define REMEMBERED_MAX 16384
/* Processes that have to share a place only cost a read and a write more. */
#define PLACES 64

/* What is known of the registers of a process: nothing, what they hold, or what they are to hold when it goes on. */
enum knowledge { NOTHING, HELD, DUE };

struct registers {
  pid_t pid;
  enum knowledge knowledge;
  size_t size;
  unsigned char bytes[REMEMBERED_MAX];
};

static struct registers places[PLACES];

static long transfer(enum __ptrace_request request, pid_t pid, struct iovec *bytes) {
  return syscall(SYS_ptrace, request, pid, (void *)NT_X86_XSTATE, bytes);
}

/* Bytes of register state on this processor, as the kernel reports them for a traced process. */
static size_t state_size(pid_t pid) {
  static size_t size;
  if (size == 0) {
    static unsigned char state[STATE_MAX];
    struct iovec all = {.iov_base = state, .iov_len = sizeof(state)};
    if (transfer(PTRACE_GETREGSET, pid, &all) == 0) size = all.iov_len;
  }
  return size;
}

static long write_padded(pid_t pid, const struct iovec *given) {
  static unsigned char state[STATE_MAX] __attribute__((aligned(64)));
  uint64_t components;
  /* Behind what is given it is zero from the start: always as much is given. */
  memcpy(state, given->iov_base, given->iov_len);
  memcpy(&components, state + XSTATE_BV_OFFSET, sizeof(components));
  components &= COMPONENTS_KEPT;
  memcpy(state + XSTATE_BV_OFFSET, &components, sizeof(components));
  struct iovec whole = {.iov_base = state, .iov_len = state_size(pid)};
  return transfer(PTRACE_SETREGSET, pid, &whole);
}

static long write_now(pid_t pid, struct iovec *given) {
  if (given->iov_len >= XSTATE_BV_OFFSET + 64 && given->iov_len < state_size(pid))
    return write_padded(pid, given);
  return transfer(PTRACE_SETREGSET, pid, given);
}

static long write_due(struct registers *of) {
  struct iovec bytes = {.iov_base = of->bytes, .iov_len = of->size};
  of->knowledge = NOTHING;
  return write_now(of->pid, &bytes);
}

/* The place of a process. Who had it before is written first, if that is due. */
static struct registers *registers_of(pid_t pid) {
  struct registers *place = &places[(unsigned)pid % PLACES];
  if (place->pid == pid) return place;
  if (place->knowledge == DUE) write_due(place);
  place->pid = pid;
  place->knowledge = NOTHING;
  return place;
}

static void remember(struct registers *of, enum knowledge knowledge, const struct iovec *bytes) {
  of->knowledge = knowledge;
  of->size = bytes->iov_len;
  memcpy(of->bytes, bytes->iov_base, bytes->iov_len);
}

static long read_registers(pid_t pid, struct iovec *into) {
  struct registers *of = registers_of(pid);
  if (of->knowledge != NOTHING && of->size <= into->iov_len) {
    memcpy(into->iov_base, of->bytes, of->size);
    into->iov_len = of->size;
    return 0;
  }
  if (of->knowledge == DUE && write_due(of) < 0) return -1;
  long result = transfer(PTRACE_GETREGSET, pid, into);
  if (result == 0 && into->iov_len <= REMEMBERED_MAX) remember(of, HELD, into);
  return result;
}

static long write_registers(pid_t pid, struct iovec *given) {
  struct registers *of = registers_of(pid);
  /* More than there is would not be written. */
  struct iovec bytes = {.iov_base = given->iov_base, .iov_len = state_size(pid)};
  if (bytes.iov_len > given->iov_len) bytes.iov_len = given->iov_len;
  if (bytes.iov_len == 0 || bytes.iov_len > REMEMBERED_MAX) {
    of->knowledge = NOTHING;
    return write_now(pid, given);
  }
  int is_held = of->knowledge == HELD && of->size == bytes.iov_len &&
                memcmp(of->bytes, bytes.iov_base, bytes.iov_len) == 0;
  if (!is_held) remember(of, DUE, &bytes);
  return 0;
}

/* Before the process goes on. Whatever it does, its registers are not known afterwards. */
static long prepare(enum __ptrace_request request, pid_t pid) {
  struct registers *of = registers_of(pid);
  int runs_stub = request == PTRACE_CONT;
  if (of->knowledge == DUE) return runs_stub ? 0 : write_due(of);
  of->knowledge = NOTHING;
  return 0;
}

long ptrace(enum __ptrace_request request, ...) {
  va_list arguments;
  va_start(arguments, request);
  pid_t pid = va_arg(arguments, pid_t);
  void *address = va_arg(arguments, void *);
  void *data = va_arg(arguments, void *);
  va_end(arguments);

  switch ((int)request) {
    case PTRACE_GETREGSET:
      if ((uintptr_t)address == NT_X86_XSTATE) return read_registers(pid, data);
      break;
    case PTRACE_SETREGSET:
      if ((uintptr_t)address == NT_X86_XSTATE) return write_registers(pid, data);
      break;
    case PTRACE_CONT:
    case PTRACE_SYSCALL:
    case PTRACE_SYSEMU:
    case PTRACE_SINGLESTEP:
    case PTRACE_SYSEMU_SINGLESTEP:
      if (prepare(request, pid) < 0) return -1;
      break;
    /* A process begins or ends: its number may have been another's. */
    case PTRACE_OLDSETOPTIONS:
    case PTRACE_SETOPTIONS:
    case PTRACE_KILL:
    /* A part of them is written in another way. */
    case PTRACE_SETFPREGS:
      registers_of(pid)->knowledge = NOTHING;
      break;
    /* The system call stores a peeked word where glibc's function returns it: ptrace(2), NOTES. */
    case PTRACE_PEEKTEXT:
    case PTRACE_PEEKDATA:
    case PTRACE_PEEKUSER: {
      long word = 0;
      long result = syscall(SYS_ptrace, request, pid, address, &word);
      if (result < 0) return result;
      errno = 0;
      return word;
    }
    default:
      break;
  }
  return syscall(SYS_ptrace, request, pid, address, data);
}

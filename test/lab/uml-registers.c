/*
 * Reduces how often user-mode Linux transfers the extended registers (x87, SSE, AVX) of its
 * processes, and makes the transfer work on every processor.
 *
 * For each system call of a process, the lab kernel reads these registers with ptrace(2) when the
 * process stops, and writes them before it continues, although they have hardly ever changed. A
 * write takes a fifth of the whole stop, because the machine's kernel allocates a buffer and
 * validates the contents. This library (LD_PRELOAD) replaces ptrace(2) and remembers the registers
 * of a stopped process:
 *
 * - They are read once per stop.
 * - They are written once, when the process continues, and only if they changed.
 *
 * With PTRACE_CONT, the process continues with a piece of the lab kernel (its stub) instead of its
 * own code. The stub does not need these registers and may change them, so they are written after
 * the stub, before the process's own code.
 *
 * The lab kernel (6.1) stores 2,696 bytes of register state (everything up to AVX-512 and
 * protection keys). If the processor has more (AMX: 11,008 bytes), a read returns a truncated
 * state, but the machine's kernel rejects a write of less than the whole state with EFAULT, and the
 * lab kernel panics before its first process runs. This library pads such a write with the initial
 * state of the missing components. These are AMX's tiles, which a process may use only after it has
 * requested them with arch_prctl(2); no process in the lab does so.
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
/* Components 0 to 9 (x87 to protection keys), which fit in 2,696 bytes. */
#define COMPONENTS_KEPT 0x3ffull
#define STATE_MAX 65536
/* The number of PTRACE_SETOPTIONS before Linux 2.6, which user-mode Linux still uses. */
#define PTRACE_OLDSETOPTIONS 21
/* No request of the lab kernel is larger than this. */
#define REMEMBERED_MAX 16384
/* Two processes that share a place only cause one more read and one more write. */
#define PLACES 64

/*
 * What is known about the registers of a process: nothing, their current value, or the value to
 * write when the process continues.
 */
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

/* The register state's size on this processor, as the kernel reports it for a traced process. */
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
  /* The rest of the buffer is zero, because it is static and every call passes the same length. */
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

/*
 * Returns the place of a process. If another process used the place, writes that process's pending
 * registers first.
 */
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
  /* The kernel would ignore bytes beyond the size of its register state. */
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

/* Called before the process continues. Afterwards, its registers are unknown. */
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
    /* A process starts or exits. Its process ID may have belonged to another process. */
    case PTRACE_OLDSETOPTIONS:
    case PTRACE_SETOPTIONS:
    case PTRACE_KILL:
    /* Writes some of the registers in another way. */
    case PTRACE_SETFPREGS:
      registers_of(pid)->knowledge = NOTHING;
      break;
    /*
     * The system call stores the word in memory, while glibc's function returns it: ptrace(2),
     * NOTES.
     */
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

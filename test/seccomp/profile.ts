/**
 * Generates deploy/seccomp/kube-ipvs.json. It allows recorded system calls and their equivalents; all others fail with
 * EPERM. containerd, CRI-O and Docker read this format (archMap, names, args).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const folder: string = join(import.meta.dirname, "../../deploy/seccomp");
export const recordedCallsPath: string = join(folder, "recorded-calls.txt");
export const profilePath: string = join(folder, "kube-ipvs.json");

interface ArgumentRule {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_MASKED_EQ";
}

interface CallRule {
  readonly comment: string;
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  readonly errnoRet?: number;
  readonly args?: readonly ArgumentRule[];
}

export interface SeccompProfile {
  readonly defaultAction: "SCMP_ACT_ERRNO";
  readonly defaultErrnoRet: number;
  readonly archMap: readonly { readonly architecture: string; readonly subArchitectures: [] }[];
  readonly syscalls: readonly CallRule[];
}

const architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"];

const EPERM = 1;
const ENOSYS = 38;

/** System calls with argument rules, regardless of the recording. */
const judged = ["socket", "clone", "clone3"];

/** System calls that Node.js tries but does not need. They would bypass the filter. */
const refused = ["io_uring_setup", "io_uring_enter"];

/** linux/socket.h */
const socketFamilies = { AF_UNIX: 1, AF_INET: 2, AF_INET6: 10, AF_NETLINK: 16 };

/** linux/sched.h. Excludes CLONE_NEWTIME: in clone, its bit belongs to the exit signal, and clone3 is not allowed. */
const newNamespaces = [
  ...[0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000],
  ...[0x1000_0000, 0x2000_0000, 0x4000_0000],
].reduce((sum, flag) => sum + flag, 0);

/**
 * System calls that may replace the recorded ones on another architecture, C library or kernel, or with different
 * timing.
 */
const equivalents: Readonly<Record<string, string>> = {
  files:
    "access faccessat faccessat2 open openat close close_range stat lstat fstat newfstatat statx statfs fstatfs " +
    "read readv pread64 write writev pwrite64 lseek getdents64 readlink readlinkat rename renameat renameat2 " +
    "mkdir mkdirat unlink unlinkat ftruncate fsync fdatasync utimensat fchmod flock fcntl ioctl umask getcwd " +
    "dup dup2 dup3 pipe pipe2 copy_file_range",
  waiting:
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 " +
    "inotify_init1 inotify_add_watch inotify_rm_watch nanosleep clock_nanosleep clock_gettime clock_getres " +
    "gettimeofday time timer_create timer_settime timer_delete restart_syscall",
  sockets:
    "socketpair bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt " +
    "sendto recvfrom sendmsg sendmmsg recvmsg recvmmsg",
  memory:
    "brk mmap munmap mremap mprotect madvise membarrier pkey_alloc pkey_mprotect pkey_free get_mempolicy",
  threads:
    "futex set_robust_list get_robust_list rseq set_tid_address sched_yield sched_getaffinity " +
    "sched_getparam sched_getscheduler sched_setscheduler arch_prctl gettid getcpu",
  processes:
    "fork vfork execve exit exit_group wait4 waitid kill tgkill getpid getppid getpgrp setsid " +
    "getuid geteuid getgid getegid getresuid getresgid getgroups getrlimit prlimit64 getrusage " +
    "sysinfo uname getrandom getpriority setpriority pidfd_open pidfd_send_signal",
  signals: "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack",
  "the runtime, between the filter and the program":
    "capget capset prctl setuid setgid setgroups setresuid setresgid chdir fchdir",
};

/** The recorded names, without comment lines. */
export function readRecordedCalls(): readonly string[] {
  const lines = readFileSync(recordedCallsPath, "utf8").split("\n");
  return lines.filter((line) => line !== "" && !line.startsWith("#"));
}

/** The profile for the recorded calls. */
export function profileText(recorded: readonly string[]): string {
  return `${JSON.stringify(profileOf(recorded), undefined, 2)}\n`;
}

function profileOf(recorded: readonly string[]): SeccompProfile {
  const names = recorded.filter((name) => ![...judged, ...refused].includes(name));
  const extra = Object.entries(equivalents).map(([what, list]) => {
    const more = list.split(" ").filter((name) => !names.includes(name));
    return allow(`not recorded, of the same kind: ${what}`, more);
  });
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: EPERM,
    archMap: architectures.map((architecture) => ({ architecture, subArchitectures: [] })),
    syscalls: [
      allow("recorded", names),
      ...extra.filter((rule) => rule.names.length > 0),
      ...socketRules(),
      ...threadRules(),
    ],
  };
}

function allow(comment: string, names: readonly string[]): CallRule {
  return { comment, names, action: "SCMP_ACT_ALLOW" };
}

function socketRules(): readonly CallRule[] {
  return Object.entries(socketFamilies).map(([family, value]) => ({
    ...allow(family, ["socket"]),
    args: [{ index: 0, value, op: "SCMP_CMP_EQ" }],
  }));
}

/** The C library falls back to clone if clone3 is missing. A filter cannot see the flags of clone3. */
function threadRules(): readonly CallRule[] {
  const noFlag: ArgumentRule = {
    index: 0,
    value: newNamespaces,
    valueTwo: 0,
    op: "SCMP_CMP_MASKED_EQ",
  };
  return [
    { ...allow("threads and processes, no namespaces", ["clone"]), args: [noFlag] },
    {
      comment: "its flags cannot be seen",
      names: ["clone3"],
      action: "SCMP_ACT_ERRNO",
      errnoRet: ENOSYS,
    },
  ];
}

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  profilePath,
  profileText,
  readRecordedCalls,
  type SeccompProfile,
} from "../../seccomp/profile.ts";
import { namesOfCalls, startedPrograms } from "../../seccomp/system-calls.ts";

const text = readFileSync(profilePath, "utf8");
const profile = JSON.parse(text) as SeccompProfile;
const allowed = profile.syscalls.filter(({ action }) => action === "SCMP_ACT_ALLOW");
const namesAllowed = new Set(allowed.flatMap(({ names }) => names));

describe("the seccomp profile", () => {
  it("equals that of the recorded calls (make seccomp writes it)", () => {
    assert.ok(readRecordedCalls().length > 50);
    assert.equal(text, profileText(readRecordedCalls()));
  });

  it("rejects calls that are not named, on both architectures", () => {
    assert.equal(profile.defaultAction, "SCMP_ACT_ERRNO");
    assert.deepEqual(
      profile.archMap.map(({ architecture }) => architecture),
      ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
    );
  });

  /** System calls with which an attacker inside the program could escalate privileges. */
  const dangerous =
    "mount umount2 pivot_root chroot move_mount open_tree fsopen ptrace process_vm_readv process_vm_writev " +
    "kexec_load kexec_file_load init_module finit_module delete_module reboot bpf perf_event_open keyctl add_key " +
    "request_key unshare setns open_by_handle_at name_to_handle_at userfaultfd io_uring_setup iopl ioperm " +
    "settimeofday clock_settime sethostname swapon acct mknod mknodat quotactl personality syslog";
  for (const name of dangerous.split(" ")) {
    it(`does not allow ${name}`, () => assert.ok(!namesAllowed.has(name)));
  }

  it("allows sockets of four families, and clone without namespaces", () => {
    const families = allowed.filter(({ names }) => names.includes("socket"));
    assert.deepEqual(
      families.map(({ args }) => args),
      [1, 2, 10, 16].map((value) => [{ index: 0, value, op: "SCMP_CMP_EQ" }]),
    );
    const [clone, ...more] = allowed.filter(({ names }) => names.includes("clone"));
    assert.deepEqual(more, []);
    // CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET from linux/sched.h.
    assert.deepEqual(clone?.args, [
      { index: 0, value: 0x7e02_0000, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" },
    ]);
    assert.ok(!namesAllowed.has("clone3"));
  });
});

describe("system calls in strace's output", () => {
  const seen = [
    '12 execve("/usr/sbin/iptables", 0x7f /* 8 vars */) = 0',
    '12 execve("/usr/local/sbin/iptables", 0x7f /* 8 vars */) = -1 ENOENT (No such file or directory)',
    '12 openat(AT_FDCWD, ""..., O_RDONLY <unfinished ...>',
    "13 futex(0x1, FUTEX_WAKE) = 1",
    "12 <... openat resumed>) = 3",
    "12 --- SIGTERM {si_signo=SIGTERM} ---",
    "12 +++ exited with 0 +++",
  ].join("\n");

  it("are each returned once, by name", () => {
    assert.deepEqual(namesOfCalls(seen), ["execve", "futex", "openat"]);
  });

  it("are grouped with the names of the programs", () => {
    assert.deepEqual(startedPrograms(seen), ["/usr/sbin/iptables"]);
  });
});

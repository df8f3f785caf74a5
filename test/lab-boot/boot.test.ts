/**
 * Tests the lab itself: its kernel, what it passes between the command and its caller, and that nothing is left behind.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

/** `false` for the lab kernel, which is the default. With LAB=host, a reason. */
const onHost = process.env["LAB"] === "host" && "it needs the lab kernel, not LAB=host";

const project = join(import.meta.dirname, "../..");

interface Run {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command with its own temporary folder, whose name also identifies its processes. */
interface Started {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly end: Promise<Run>;
}

function start(...argv: string[]): Started {
  return startProgram("test/lab/boot.ts", ...argv);
}

function startProgram(...argv: string[]): Started {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-boot-"));
  const child = spawn(process.execPath, argv, {
    cwd: project,
    env: { ...process.env, TMPDIR: folder },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString("latin1");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString("latin1");
  });
  const end = new Promise<Run>((resolve) => {
    child.once("close", (status) => resolve({ status, stdout, stderr }));
  });
  return { child, folder, end };
}

/** Runs the lab until it exits. Fails if something is left behind. */
async function boot(...argv: string[]): Promise<Run> {
  const { folder, end } = start(...argv);
  const run = await end;
  assert.deepEqual(processesNaming(folder), []);
  rmdirSync(folder);
  return run;
}

function processesNaming(text: string): readonly string[] {
  return readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && commandLine(name).includes(text),
  );
}

/** A process's command line. Empty if the process has exited. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** The kernel takes a moment to kill the processes in a process namespace; on a busy machine, several seconds. */
async function goneSoon(text: string): Promise<void> {
  for (let attempt = 0; attempt < 300 && processesNaming(text).length > 0; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.deepEqual(processesNaming(text), []);
}

/** Control characters, line ends, an escape sequence, a UTF-8 character and an invalid byte. */
const bytes = "\\000\\001\\r\\n\\t\\033[31m\\303\\251\\377";
const expectedBytes = "\0\x01\r\n\t\x1b[31m\xc3\xa9\xff";

describe("the lab", () => {
  it("passes on standard output and standard error, the arguments and the exit status", async () => {
    const script = `printf '${bytes}'; printf "%s|" "$@" >&2; exit 7`;
    const run = await boot("--", "sh", "-c", script, "sh", "a b", "it's", "$HOME", "");
    assert.deepEqual(run, { status: 7, stdout: expectedBytes, stderr: "a b|it's|$HOME||" });
  });

  it("is the lab kernel by default, not this machine's own", { skip: onHost }, async () => {
    const script = "echo $LAB_KIND; uname -r; sed -n 's/^vendor_id.*: //p' /proc/cpuinfo";
    const { stdout } = await boot("--", "sh", "-c", script);
    const [kind, version, processor] = stdout.split("\n");
    assert.deepEqual([kind, processor], ["lab-kernel", "User Mode Linux"]);
    assert.notEqual(version, release());
  });

  it("has IPVS, ipset and legacy iptables, and brings lo up", async () => {
    const script =
      "ipvsadm -A -t 10.0.0.1:80 -s rr && ipvsadm -Sn && ipset create a hash:ip && ipset list -n && " +
      "iptables -t nat -N X -m comment 2>/dev/null; iptables -V; cat /sys/class/net/lo/flags";
    const { stdout } = await boot("--", "sh", "-c", script);
    assert.match(stdout, /^-A -t 10\.0\.0\.1:80 -s rr\na\niptables v\S+ \(legacy\)\n0x9\n$/);
  });

  it("cannot change the whole machine with LAB=host (tested on the lab kernel)", {
    skip: onHost,
  }, async () => {
    const attempts = [
      "date -s @1",
      "rmmod ip_vs_rr",
      "echo 60 > /proc/sys/kernel/panic",
      "echo 16384 > /sys/module/nf_conntrack/parameters/hashsize",
      "nsenter --net=/proc/1/ns/net sh -c 'echo 1000 > /proc/sys/net/netfilter/nf_conntrack_max'",
    ];
    const lines = attempts.map((line) => `if ${line}; then echo "done: ${line}"; fi`);
    const script = [
      ...lines,
      "echo o > /proc/sysrq-trigger",
      "ipvsadm -A -t 10.0.0.1:80 -s rr && ipvsadm -Sn",
      "echo 1 > /proc/sys/net/ipv4/ip_forward && iptables -V && echo $LAB_KIND",
    ].join("\n");
    const inside = ["env", "LAB=host", "node", "test/lab/boot.ts", "--", "sh", "-c", script];
    const { status, stdout } = await boot("--", ...inside);
    const shown = stdout.replace(/^.* 1970\n/, ""); // `date` prints the time that it could not set.
    assert.match(shown, /^-A -t 10\.0\.0\.1:80 -s rr\niptables v\S+ \(legacy\)\nhost\n$/);
    assert.equal(status, 0);
  });

  it("keeps the registers of processes through system calls, page faults and signals", {
    skip: onHost,
  }, async () => {
    const { stdout } = await boot("--", "build/test/keep-registers", "2000");
    assert.equal(stdout, "kept\n");
  });

  it("runs the Node.js that started it, in the current folder", async () => {
    const { stdout } = await boot("--", "node", "-p", "process.version + ' ' + process.cwd()");
    assert.equal(stdout, `${process.version} ${project}\n`);
  });

  it("discards the files that the command writes", { skip: onHost }, async () => {
    const path = join(project, "build/written-in-the-lab");
    const { status } = await boot("--", "sh", "-c", `echo x > ${path} && cat ${path}`);
    assert.equal(status, 0);
    assert.throws(() => readFileSync(path), /ENOENT/);
  });

  it("can run without IPVS", { skip: onHost }, async () => {
    const run = await boot("--without-ipvs", "--", "sh", "-c", "ipvsadm -Ln || modprobe ip_vs");
    assert.equal(run.status, 1);
    assert.match(run.stderr, /Module ip_vs not found/);
  });

  it("ends a command that exceeds its timeout", async () => {
    const { status, stderr } = await boot("--timeout", "3", "--", "sleep", "9931");
    assert.deepEqual({ status, stderr }, { status: 124, stderr: "lab: killed after 3 s\n" });
    assert.deepEqual(processesNaming("9931"), []);
  });

  // Each command sleeps for a time that no other process on this machine uses.
  for (const [signal, seconds] of [
    ["SIGTERM", "99320715"],
    ["SIGKILL", "99320909"],
  ] as const) {
    it(`ends with the process that started it: ${signal}`, async () => {
      const { child, folder, end } = start("--", "sh", "-c", `echo started; sleep ${seconds}`);
      await new Promise((resolve) => child.stdout?.once("data", resolve));
      child.kill(signal);
      const { status } = await end;
      assert.equal(status, signal === "SIGTERM" ? 130 : null);
      await goneSoon(folder);
      await goneSoon(seconds);
      rmSync(folder, { recursive: true });
    });
  }

  it("gives the user a shell on a terminal, with the program and an address", async () => {
    const command = `${process.execPath} test/lab/shell.ts`;
    const child = spawn("script", ["-qec", command, "/dev/null"], { cwd: project });
    const status = new Promise<number | null>((resolve) => child.once("close", resolve));
    let shown = "";
    let hasTyped = false;
    child.stdout.on("data", (chunk: Buffer) => {
      shown += chunk.toString();
      if (hasTyped || !/lab:\S+# $/.test(shown)) return;
      hasTyped = true;
      child.stdin.write("ip -br -4 address show eth0; kube-ipvs --version; exit 3\n");
    });
    assert.equal(await status, 3);
    assert.match(shown, /eth0 .*192\.168\.10\.11\/24/);
    assert.match(shown, /kube-ipvs v\d+\.\d+/);
  });

  it("runs commands from standard input in the shell if it is not a terminal", async () => {
    const { child, folder, end } = startProgram("test/lab/shell.ts");
    child.stdin?.end("ip -br -4 address show eth0\nkube-ipvs --version\nexit 3\n");
    const { status, stdout } = await end;
    assert.equal(status, 3);
    assert.match(stdout, /^eth0 .*192\.168\.10\.11\/24 \n.*kube-ipvs v\d+\.\d+.*\n$/);
    rmdirSync(folder);
  });

  it("leaves nothing behind if the shell is killed", async () => {
    const seconds = "99320716";
    const { child, folder, end } = startProgram("test/lab/shell.ts");
    child.stdin?.end(`echo started; sleep ${seconds}\n`);
    await new Promise((resolve) => child.stdout?.once("data", resolve));
    child.kill("SIGTERM");
    const { status } = await end;
    assert.equal(status, 130);
    await goneSoon(folder);
    rmdirSync(folder);
  });

  it("reports a kernel crash", { skip: onHost }, async () => {
    const run = await boot("--", "sh", "-c", "echo o > /proc/sysrq-trigger; sleep 60");
    assert.equal(run.status, 125);
    assert.match(run.stderr, /^lab: the lab kernel exited before the command did\n/);
  });
});

/**
 * Runs the commands of deploy/systemd/README.md on a node whose services systemd manages. systemd has its own namespaces
 * for processes and mounts, and uses the node's network.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { shellBlocksOf } from "../support/documents/guides.ts";
import { eventually } from "../support/lab-daemon.ts";
import { requireLabKernel } from "../support/machine-wide.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { patienceMs } from "../support/patience.ts";

const project = join(import.meta.dirname, "../..");
const guide = readFileSync(join(project, "deploy/systemd/README.md"), "utf8");
const [install = "", , , uninstall = ""] = shellBlocksOf(guide);
/** The suite runs the program that is already built. */
const [build, ...installSteps] = install.trim().split("\n");
/** Like diff, `plan` exits with 2 if there are changes. */
const exitCodes: Readonly<Record<string, number>> = { "kube-ipvs plan": 2 };
const served = "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1";

let systemd: ChildProcess;
let enter: readonly string[];

before(async () => {
  requireLabKernel("installs a systemd unit and starts systemd");
  // systemd gives a service its own PATH, in which /usr/local/sbin comes first.
  shell("cp -a /lab/bin/. /usr/local/sbin; rm -rf /etc/systemd/system/*.wants");
  // At boot, systemd empties /tmp, which may contain this project.
  shell("ln -sf /dev/null /etc/systemd/system/systemd-tmpfiles-setup.service");
  shell("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup");
  const start = "mount -t tmpfs tmpfs /run; exec /lib/systemd/systemd --unit=basic.target";
  const namespaces = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc"];
  systemd = spawn("unshare", [...namespaces, "sh", "-c", `${start} --show-status=no`], {
    env: { PATH: process.env["PATH"], container: "lab" },
    stdio: "ignore",
  });
  await eventually(() => spawnSync("pgrep", ["-P", `${systemd.pid}`]).status, 0, patienceMs);
  const pid = execFileSync("pgrep", ["-P", `${systemd.pid}`], { encoding: "utf8" }).trim();
  enter = [
    "nsenter",
    "--target",
    pid,
    "--mount",
    "--pid",
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
  ];
  await eventually(
    () => run("systemctl is-active basic.target").output.trim(),
    "active",
    patienceMs,
  );
});

after(() => {
  systemd.kill("SIGKILL");
});

/** Runs a shell command as an operator on the node. */
function run(command: string): { readonly status: number | null; readonly output: string } {
  const [program = "", ...args] = [...enter, "sh", "-c", `cd ${project} && ${command}`];
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  return { status, output: stdout + stderr };
}

/** Runs the lines of a block, and fails at the first unexpected exit code. */
function runSteps(steps: readonly string[]): void {
  for (const step of steps) {
    const { status, output } = run(step);
    const [, expected = 0] =
      Object.entries(exitCodes).find(([name]) => step.startsWith(name)) ?? [];
    assert.equal(status, expected, `${step}\n${output}`);
  }
}

function mainPid(): string {
  return run("systemctl show --property MainPID --value kube-ipvs").output.trim();
}

function virtualServers(): readonly string[] {
  return shell("ipvsadm -Sn").trim().split("\n");
}

describe("kube-ipvs as a systemd service", () => {
  it("serves the example after the guide's commands", () => {
    assert.equal(build, "make build");
    runSteps(installSteps);
    assert.ok(virtualServers().includes(served));
    assert.equal(run("systemctl is-enabled kube-ipvs").output.trim(), "enabled");
  });

  it("follows changes to the files", async () => {
    const file = "/etc/kube-ipvs/services/web.yaml";
    assert.equal(run(`sed -i s/10.244.1.10/10.244.3.10/ ${file}`).status, 0);
    await eventually(
      () => virtualServers().includes(served.replace("1.10:8080", "3.10:8080")),
      true,
      patienceMs,
    );
  });

  it("is restarted after it was killed, and its status is OK", async () => {
    const first = mainPid();
    assert.equal(run("systemctl kill --signal=KILL kube-ipvs").status, 0);
    await eventually(() => ![first, "0"].includes(mainPid()), true, patienceMs);
    const { status, output } = run("kube-ipvs status --wait 60");
    assert.equal(status, 0, output);
  });

  it("can write only its own files, and has no capabilities other than the unit's", () => {
    const status = run(`grep CapBnd /proc/${mainPid()}/status`).output;
    // CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_MODULE.
    assert.match(status, /^CapBnd:\t0000000000013000$/m);
    const mounts = run(`cat /proc/${mainPid()}/mountinfo`).output.split("\n");
    const root = mounts.filter((line) => / \/ \/ |^\S+ \S+ \S+ \S+ \/ /.test(line)).at(-1) ?? "";
    assert.match(root, /^\S+ \S+ \S+ \S+ \/ ro,/);
  });

  it("leaves nothing on the node after the guide's uninstall commands", () => {
    runSteps(uninstall.trim().split("\n"));
    assert.deepEqual(virtualServers(), [""]);
    assert.doesNotMatch(shell("iptables-save; ipset list -n; ip -br link"), /KUBE|kube/);
    rmSync("/etc/kube-ipvs", { recursive: true });
  });
});

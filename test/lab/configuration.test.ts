/**
 * Uses the built program to test how the configuration affects a node: --init-only, conntrack limits, and file changes.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, describe, it } from "node:test";
import { eventually } from "../support/lab-daemon.ts";
import { assertNotLogged } from "../support/not-logged.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-config-"));
after(() => rmSync(folder, { recursive: true }));

const file = join(folder, "config.conf");
const manifests = mkdtempSync(join(folder, "manifests-"));
const synced = /SyncProxyRules complete/;

writeFileSync(
  join(manifests, "web.yaml"),
  `apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.20, ports: [{ port: 80 }] }
`,
);

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

function writeConfig(lines: string, mode: "ipvs" | "userspace" = "ipvs"): void {
  writeFileSync(file, `${head}mode: ${mode}\nhostnameOverride: node-1\n${lines}\n`);
}

const programs: Program[] = [];
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.kill("SIGKILL");
    await program.ends();
  }
});

function start(args: readonly string[], command: readonly string[] = []): Program {
  const program = new Program([...args, "--manifests", manifests, "-v=3"], command);
  programs.push(program);
  return program;
}

const numberIn = (path: string): number => Number(readFileSync(path, "utf8"));
const maxFile = "/proc/sys/net/netfilter/nf_conntrack_max";
const bucketsFile = "/sys/module/nf_conntrack/parameters/hashsize";
const closeWaitFile = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

/** Runs the program with /proc/sys and /sys read-only, as in an unprivileged container. */
const readOnly: readonly string[] = [
  ...["unshare", "--mount", "sh", "-ec"],
  'for i in /proc/sys /sys; do mount --bind $i $i; mount -o remount,ro,bind $i; done; exec "$@"',
  "sh",
];

describe("--init-only", () => {
  it("reports settings that it cannot make if the node is not prepared and /proc/sys is read-only", async () => {
    writeFileSync(closeWaitFile, "60");
    const program = start([], readOnly);
    assert.equal((await program.ends()).code, 1);
    assert.match(
      program.failures.join(),
      /^Cannot set sysctl net\.netfilter\.nf_conntrack_.* EROFS \(\/proc\/sys is not writable; .*--init-only/,
    );
  });

  it("sets limits and sysctls, creates no rule, and exits with 0", async () => {
    const program = start(["--init-only"]);
    assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
    assert.equal(numberIn(maxFile), 131_072);
    assert.ok(numberIn(bucketsFile) >= 32_768);
    assert.equal(numberIn("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"), 86_400);
    assert.equal(numberIn(closeWaitFile), 3_600);
    assert.equal(numberIn("/proc/sys/net/ipv4/vs/conntrack"), 1);
    assert.equal(numberIn("/proc/sys/net/ipv4/ip_forward"), 1);
    assert.doesNotMatch(execFileSync("ip", ["link"]).toString(), /kube-ipvs0/);
    assert.doesNotMatch(execFileSync("iptables-save").toString(), /KUBE-/);
    assert.equal(execFileSync("ipset", ["list", "-n"]).toString(), "");
  });

  it("writes nothing when it runs again", async () => {
    const program = start(["--init-only"]);
    assert.equal((await program.ends()).code, 0);
    assert.match(program.output, /"Node prepared"/);
    assertNotLogged(program.output, "Set sysctl", "Set module parameter");
  });

  it("lets the daemon start later even if the daemon itself cannot write any setting", async () => {
    await start([], readOnly).prints(synced);
  });
});

describe("a configuration file with an empty mode", () => {
  const emptyMode = `${head}mode: ""\nhostnameOverride: node-1\n`;

  it("is rejected at startup, and the error names both choices", async () => {
    writeFileSync(file, emptyMode);
    const program = start(["--config", file]);
    assert.deepEqual(await program.ends(), { code: 1, signal: null }, program.output);
    assert.match(program.failures.join(), /^mode: must be set: choose ipvs .*, or iptables /);
  });

  it("does not stop a running program, which keeps its configuration and logs the error", async () => {
    for (const own of ["", "kubeIpvs: {configReload: true}"]) {
      writeConfig(own);
      const program = start(["--config", file]);
      await program.prints(synced);
      writeFileSync(file, `${emptyMode}ipvs: {scheduler: wrr}\n${own}\n`);
      await program.prints(/"Cannot apply changed configuration file".*mode: must be set/);
      assert.match(ipvsadm(), /TCP {2}10\.96\.0\.20:80 rr/);
      program.kill("SIGKILL");
      await program.ends();
    }
  });
});

describe("a changed configuration file", () => {
  for (const mode of ["ipvs", "userspace"] as const) {
    it(`stops the program with exit status 1 in ${mode} mode`, async () => {
      writeConfig("", mode);
      const program = start(["--config", file]);
      await program.prints(synced);
      appendFileSync(file, "# touched\n");
      assert.deepEqual(await program.ends(), { code: 1, signal: null });
      assert.equal(
        program.failures.join(),
        `Configuration file ${file} was written, exiting to restart`,
      );
    });
  }

  it("is applied without a restart with configReload in userspace mode", async () => {
    const own = "kubeIpvs: {configReload: true}";
    writeConfig(own, "userspace");
    const program = start(["--config", file]);
    await program.prints(synced);
    writeConfig(`${own}\nnodePortAddresses: [10.0.0.0/8]\nbindAddress: 127.0.0.1`, "userspace");
    await program.prints(/"Changed settings require a restart" settings=\["bindAddress"\]/);
    const served = await fetch("http://127.0.0.1:10249/configz");
    const { "kubeproxy.config.k8s.io": shown } = (await served.json()) as {
      readonly "kubeproxy.config.k8s.io": Readonly<Record<string, unknown>>;
    };
    assert.deepEqual(shown["nodePortAddresses"], ["10.0.0.0/8"]);
  });

  it("is applied without a restart with configReload, and settings that need a restart are logged", async () => {
    const own = "kubeIpvs: {configReload: true}";
    writeConfig(own);
    const program = start(["--config", file]);
    await program.prints(synced);
    const server = (): string => /TCP {2}10\.96\.0\.20:80 \w+/.exec(ipvsadm())?.[0] ?? "";
    assert.equal(server(), "TCP  10.96.0.20:80 rr");
    writeConfig(`${own}\nipvs: {scheduler: wrr}\nmetricsBindAddress: 127.0.0.1:20249`);
    await program.prints(/"Changed settings require a restart" settings=\["metricsBindAddress"\]/);
    await eventually(server, "TCP  10.96.0.20:80 wrr", patienceMs);
    writeConfig(`${own}\nipvs: {scheduler: nonsense}`);
    await program.prints(/"Cannot apply changed configuration file"/);
    assert.equal(server(), "TCP  10.96.0.20:80 wrr");
  });
});

function ipvsadm(): string {
  return execFileSync("ipvsadm", ["-Ln"]).toString();
}

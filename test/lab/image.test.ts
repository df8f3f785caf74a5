/**
 * Runs the image on a node: the assembled root under an OCI runtime, with exactly the permissions in the manifests. An
 * API server over HTTP provides the Services.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { planSysctls } from "../../src/plan/sysctls.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { NodeContainers } from "../support/container/node-containers.ts";
import {
  type ContainerTemplate,
  configOf,
  podOf,
  readManifests,
  type SecurityContext,
} from "../support/container/pod.ts";
import { capabilitiesOf } from "../support/container/runtime-spec.ts";
import { eventually } from "../support/lab-daemon.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { endpointSlice, node, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";

const manifests = readManifests("replace-kube-proxy");
const pod = podOf(manifests);
const [prepare] = pod.initContainers;
const [main] = pod.containers;
assert.ok(prepare !== undefined && main !== undefined);
const token = "token-of-the-account";
const migrateGuide = readFileSync(join(import.meta.dirname, "../../docs/migrate.md"), "utf8");

/** The configuration values that an operator sets. */
function configFor(url: string): Readonly<Record<string, string>> {
  const config = configOf(manifests);
  return {
    ...config,
    "kubeconfig.conf": (config["kubeconfig.conf"] ?? "").replace(/server: .*/, `server: ${url}`),
  };
}

let server: ApiServer;
let onNode: NodeContainers;

before(async () => {
  // The runtime requires this mount even if it is configured to ignore cgroups.
  shell("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup");
  // kubelet's chains, which show the node's iptables backend.
  for (const program of ["iptables-legacy", "ip6tables-legacy"]) {
    shell(`${program} -t mangle -N KUBE-IPTABLES-HINT`);
  }
  shell("ip link add eth0 type dummy; ip link set eth0 up");
  shell("ip address add 192.168.10.11/24 dev eth0");
  server = await ApiServer.start({ token, objects: [node(), service(), endpointSlice()] });
  onNode = new NodeContainers(pod, { config: configFor(server.url), token, nodeName: "node-1" });
});

after(async () => {
  await onNode.destroy();
  await server.stop();
});

/** A line of /proc/PID/status. */
function statusLine(program: Program, key: string): string {
  const status = readFileSync(`/proc/${onNode.pidOf(program)}/status`, "utf8");
  return new RegExp(`^${key}:\\s*(.*)$`, "m").exec(status)?.[1] ?? "";
}

async function serves(line: string): Promise<void> {
  await eventually(() => shell("ipvsadm -Sn").split("\n").includes(line), true, patienceMs);
}

function without(container: ContainerTemplate, capability: string): ContainerTemplate {
  const { capabilities, ...context } = container.securityContext ?? {};
  const add = (capabilities?.add ?? []).filter((name) => name !== capability);
  return { ...container, securityContext: { ...context, capabilities: { ...capabilities, add } } };
}

const withoutTracing = ["setpriv", "--bounding-set=-sys_ptrace"] as const;

/** Whether root without CAP_SYS_PTRACE can trace the process. */
function canBeTraced(pid: number): boolean {
  const [program, ...options] = withoutTracing;
  return spawnSync(program, [...options, "cat", `/proc/${pid}/environ`]).status === 0;
}

/** The profile in deploy/seccomp/kube-ipvs.json. */
const ownProfile = { type: "Localhost", localhostProfile: "kube-ipvs.json" };

function underOwnProfile(container: ContainerTemplate): ContainerTemplate {
  const securityContext = { ...container.securityContext, seccompProfile: ownProfile };
  return { ...container, securityContext };
}

/**
 * The objects that kube-ipvs creates on a node, and the sysctls that it sets. Reading an iptables table creates an
 * empty table.
 */
function kernelState(): string {
  const sysctls = planSysctls({ strictARP: false, kernelRelease: release() });
  const rules = "iptables-legacy-save | sed -n 's/ \\[.*//; /^-A/p; /^:.* -$/p'";
  return [
    shell(`ipvsadm -Sn; ipset list -n; ${rules}; ip -br link show type dummy`),
    ...sysctls.map(({ path }) => readFileSync(`/proc/sys/${path}`, "utf8")),
  ].join("\n");
}

describe("the image on a node", () => {
  it("changes nothing with the observer's manifest and reports what it would change", async () => {
    const [observer] = podOf(readManifests("observe")).containers;
    assert.ok(observer !== undefined);
    const before = kernelState();
    const program = onNode.start(observer);
    await program.prints(/Observing only: pending changes/);
    const [planning = ""] = /--node NODE (plan.*)$/m.exec(migrateGuide)?.slice(1) ?? [];
    const plan = await onNode.exec(program, ["sh", "-c", `kube-ipvs ${planning}; test $? = 2`]);
    assert.match(plan, /^ {2}\+ TCP 10\.96\.0\.10:80 \(rr\)/m);
    const doctor = ["sh", "-c", "kube-ipvs doctor --before-install || true"];
    assert.match(await onNode.exec(program, doctor), /^ok +kernel /m);
    const status = await onNode.exec(program, ["kube-ipvs", "status"]);
    assert.match(status, /ipvs, observe-only/);
    assert.equal(kernelState(), before);
    onNode.signal(program, "TERM");
    assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
  });

  it("cannot set sysctls without privileges, and says what to do", async () => {
    const program = onNode.start(main);
    await program.ends();
    assert.match(
      program.failures.join(),
      /^Cannot set sysctl \S+ to \d+ \(currently \d+\): EROFS \(.*--init-only/,
    );
  });

  it("sets sysctls in its init container, which then exits", async () => {
    const program = onNode.start(prepare);
    assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
    for (const { path, value } of planSysctls({ strictARP: false, kernelRelease: release() })) {
      assert.equal(readFileSync(`/proc/sys/${path}`, "utf8").trim(), value, path);
    }
    assert.equal(shell("ipvsadm -Sn"), "");
  });

  it("serves the cluster's Services after that with only the manifest's capabilities", async () => {
    const program = onNode.start({ ...main, command: [...main.command, "-v=3"] });
    await program.prints(/SyncProxyRules complete/);
    await serves("-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1");
    assert.match(shell("ipset list KUBE-CLUSTER-IP"), /^10\.96\.0\.10,tcp:80$/m);
    assert.match(shell("iptables-legacy-save -t nat"), /-A KUBE-SERVICES .*KUBE-CLUSTER-IP/);

    assert.match(await onNode.exec(program, ["kube-ipvs", "status"]), /^OK, 1 Service, last sync /);

    assert.deepEqual(capabilitiesOf(main.securityContext), ["CAP_NET_ADMIN", "CAP_NET_RAW"]);
    // Bits 12 and 13 of linux/capability.h.
    for (const set of ["CapEff", "CapPrm", "CapBnd"]) {
      assert.equal(statusLine(program, set), "0000000000003000", set);
    }
    assert.equal(statusLine(program, "NoNewPrivs"), "1");
    assert.equal(statusLine(program, "Seccomp"), "2", "filtered");
    const mounts = readFileSync(`/proc/${onNode.pidOf(program)}/mountinfo`, "utf8");
    assert.match(mounts, / \/ ro,/);
    assert.match(mounts, / \/proc\/sys ro,/);

    for (const probe of [main.livenessProbe, main.readinessProbe]) {
      const { path, port } = probe?.httpGet ?? { path: "", port: "" };
      const listener = main.ports?.find(({ name }) => name === port);
      const response: Response = await fetch(
        `http://192.168.10.11:${listener?.containerPort}${path}`,
      );
      assert.equal(response.status, 200);
    }

    server.apply(endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.11"] }));
    await serves("-a -t 10.96.0.10:80 -r 10.244.1.11:8080 -m -w 1");
    assert.notDeepEqual(readdirSync(onNode.volumePath("compile-cache")), []);
    onNode.signal(program, "TERM");
    assert.deepEqual(await program.ends(), { code: 0, signal: null });
  });

  it("syncs, follows changes, restarts and cleans up under the project's seccomp profile", async () => {
    const own = underOwnProfile(main);
    const [backend, next] = ["10.244.1.21", "10.244.1.22"];
    server.apply(endpointSlice({ endpoints: [backend] }));
    const first = onNode.start(own);
    await serves(`-a -t 10.96.0.10:80 -r ${backend}:8080 -m -w 1`);
    assert.equal(statusLine(first, "Seccomp"), "2");
    server.apply(endpointSlice({ endpoints: [next] }));
    await serves(`-a -t 10.96.0.10:80 -r ${next}:8080 -m -w 1`);
    onNode.signal(first, "TERM");
    assert.deepEqual(await first.ends(), { code: 0, signal: null }, first.output);
    const second = onNode.start({ ...own, command: [...own.command, "-v=3"] });
    await second.prints(/SyncProxyRules complete/);
    onNode.signal(second, "TERM");
    assert.deepEqual(await second.ends(), { code: 0, signal: null }, second.output);
    assert.doesNotMatch(first.output + second.output, /^E\d|EPERM/m);
    const cleanUp = onNode.start({ ...own, command: [...own.command, "--cleanup"] });
    assert.deepEqual(await cleanUp.ends(), { code: 0, signal: null }, cleanUp.output);
    assert.equal(
      shell("ipvsadm -Sn; ipset list -n; iptables-save | grep KUBE-SERVICES || true"),
      "",
    );
  });

  it("is removed from the node by the clean-up manifest, which then waits to be stopped", async () => {
    const program = onNode.start(main);
    await serves(`-a -t 10.96.0.10:80 -r 10.244.1.22:8080 -m -w 1`);
    onNode.signal(program, "TERM");
    await program.ends();
    const leaving = podOf(readManifests("clean-up"));
    const [cleanUp] = leaving.initContainers;
    const [done] = leaving.containers;
    assert.ok(cleanUp !== undefined && done !== undefined);
    const cleaned = onNode.start(cleanUp);
    assert.deepEqual(await cleaned.ends(), { code: 0, signal: null }, cleaned.output);
    assert.match(cleaned.output, /^ {2}Virtual servers: \d+$/m);
    assert.equal(
      shell("ipvsadm -Sn; ipset list -n; iptables-save | grep KUBE-SERVICES || true"),
      "",
    );
    const waiting = onNode.start(done);
    await waiting.prints(/^Waiting for SIGTERM$/m);
    assert.equal(statusLine(waiting, "Uid"), "65534\t65534\t65534\t65534");
    assert.equal(statusLine(waiting, "CapBnd"), "0000000000000000");
    onNode.signal(waiting, "TERM");
    assert.deepEqual(await waiting.ends(), { code: 0, signal: null }, waiting.output);
  });

  it("cannot make other system calls under this profile, regardless of its capabilities", async () => {
    const path = join(onNode.volumePath("compile-cache"), "forbidden-calls");
    copyFileSync(join(import.meta.dirname, "../../build/test/forbidden-calls"), path);
    const errnosOf = async (context: SecurityContext): Promise<readonly string[]> => {
      const command = ["/var/cache/kube-ipvs/forbidden-calls"];
      const securityContext = { ...context, privileged: true };
      const program = onNode.start({ ...main, command, securityContext });
      assert.deepEqual(await program.ends(), { code: 0, signal: null }, program.output);
      return program.output.trim().split("\n");
    };
    const EPERM = " 1";
    const control = await errnosOf({});
    assert.ok(control.length > 10);
    assert.deepEqual(
      control.filter((line) => line.endsWith(EPERM)),
      [],
    );
    const filtered = await errnosOf({ seccompProfile: ownProfile });
    assert.deepEqual(
      filtered.filter((line) => !line.endsWith(EPERM)),
      [],
    );
  });

  it("never shows the account's token in the log or on a page", async () => {
    const program = onNode.start({ ...main, command: [...main.command, "-v=10"] });
    await program.prints(/SyncProxyRules complete/);
    const pages = [
      "10249/metrics",
      "10249/configz",
      "10249/flagz",
      "10249/statusz",
      "10256/healthz",
    ];
    for (const page of pages) {
      const text = await (await fetch(`http://127.0.0.1:${page}`)).text();
      assert.ok(text.length > 10, page);
      assert.ok(!text.includes(token), page);
    }
    onNode.signal(program, "TERM");
    await program.ends();
    assert.match(program.output, /"Shutting down, leaving kernel state in place"/);
    assert.ok(!program.output.includes(token));
    assert.ok(
      server.requests.some(({ headers }) => headers["authorization"] === `Bearer ${token}`),
    );
  });

  it("writes no core dump and opens no debugger", async (test) => {
    const program = onNode.start({ ...main, command: [...main.command, "-v=3"] });
    await program.prints(/SyncProxyRules complete/);
    const process = `/proc/${onNode.pidOf(program)}`;
    assert.match(readFileSync(`${process}/limits`, "utf8"), /^Max core file size +0 +0 /m);
    // A pipe in kernel.core_pattern ignores the limit. The kernel never dumps a process with PR_SET_DUMPABLE 0:
    // prctl(2).
    const other = new Program(["60"], withoutTracing, { program: "sleep" });
    test.after(() => other.kill("SIGKILL"));
    await eventually(() => canBeTraced(other.pid), true, patienceMs);
    assert.equal(canBeTraced(onNode.pidOf(program)), false);
    // Bit 9 of the mask is SIGUSR1 (10), for which Node.js opens its debugger port.
    const caught = BigInt(`0x${statusLine(program, "SigCgt")}`);
    assert.equal((caught >> 9n) & 1n, 0n);
    onNode.signal(program, "TERM");
    await program.ends();
  });

  it("needs NET_RAW with legacy iptables", async () => {
    const program = onNode.start(without(main, "NET_RAW"));
    await program.ends();
    assert.match(program.failures.join(), /^Cannot start: neither iptables nor ip6tables works/);
    assert.match(program.failures.join(), /NET_ADMIN and NET_RAW$/);
  });
});

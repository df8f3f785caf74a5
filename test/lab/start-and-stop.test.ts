/** Starts and stops the built program on a kernel with IPVS, including with arguments that it rejects. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, describe, it } from "node:test";
import { iptablesModeRules } from "../support/iptables-mode.ts";
import { eventually } from "../support/lab-daemon.ts";
import { assertNotLogged } from "../support/not-logged.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import {
  labRules,
  listIpsets,
  listRules,
  rulesFlags,
  unlessIptables,
} from "../support/rules-writer.ts";

const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-start-"));
after(() => rmSync(folder, { recursive: true }));

const base = ["--manifests", folder, "--hostname-override=node-1", "--proxy-mode=ipvs", "-v=3"];
const synced = /SyncProxyRules complete/;

const programs: Program[] = [];
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.kill("SIGKILL");
    await program.ends();
  }
});

function start(args: readonly string[] = [], command: readonly string[] = []): Program {
  const rules = args.includes("--proxy-mode=userspace") ? [] : rulesFlags;
  const program = new Program([...base, ...rules, ...args], command);
  programs.push(program);
  return program;
}

/** Ports that allow an instance to run next to another. */
const elsewhere = [
  "--kube-ipvs-lock-name=elsewhere",
  "--metrics-bind-address=127.0.0.1:20249",
  "--healthz-bind-address=127.0.0.1:20256",
];

async function get(port: number, path: string): Promise<readonly [status: number, body: string]> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return [response.status, await response.text()];
}

/** A Service without EndpointSlices, and the Pods that it selects. */
const podsAndService = `
kind: Service
metadata: { name: web }
spec: { clusterIP: 10.96.0.20, selector: { app: web }, ports: [{ port: 80, targetPort: http }] }
---
kind: Pod
metadata: { name: web-1, labels: { app: web } }
spec: { containers: [{ ports: [{ name: http, containerPort: 8080 }] }] }
status: { podIP: 10.244.1.10 }
---
kind: Pod
metadata: { name: web-2, labels: { app: web } }
spec: { containers: [{ ports: [{ name: http, containerPort: 8081 }] }] }
status: { podIP: 10.244.1.11, conditions: [{ type: Ready, status: "False" }] }
`;

describe("userspace mode", { skip: unlessIptables("userspace mode needs it") }, () => {
  it("redirects a virtual IP to its endpoints with iptables alone, and --cleanup removes the rules", async () => {
    for (const given of ["address add 10.244.1.10/32 dev lo", "route add 10.96.0.0/16 dev lo"]) {
      execFileSync("ip", given.split(" "));
    }
    const server = createServer((socket) => socket.end("web"));
    await new Promise<void>((resolve) => server.listen(8080, "10.244.1.10", resolve));
    const pods = join(folder, "userspace.yaml");
    writeFileSync(pods, podsAndService);
    const program = start(["--proxy-mode=userspace"]);
    await program.prints(synced);
    let answer = "";
    for await (const chunk of connect(80, "10.96.0.20")) answer += String(chunk);
    assert.equal(answer, "web");
    assert.equal((await get(10249, "/proxyMode"))[1], "userspace");
    program.kill("SIGTERM");
    assert.equal((await program.ends()).code, 0);
    assert.match(execFileSync("iptables-save").toString(), /KUBE-PORTALS-HOST/);
    const cleanUp = start(["--cleanup"]);
    assert.equal((await cleanUp.ends()).code, 0, cleanUp.output);
    assert.doesNotMatch(execFileSync("iptables-save").toString(), /KUBE-/);
    server.close();
    rmSync(pods);
  });

  it("leaves nothing behind for another mode, not even filter rules from an interrupted removal", async () => {
    const comment = "Ensure that non-local NodePort traffic can flow";
    const chain = "KUBE-NODEPORT-NON-LOCAL";
    execFileSync("iptables", ["-N", chain]);
    execFileSync("iptables", [
      ...["-I", "INPUT", "-m", "comment", "--comment", comment],
      ...["-j", chain],
    ]);
    const program = start();
    await program.prints(synced);
    assert.match(program.output, /"Removed leftover iptables rules" .*modes="?userspace/);
    assert.doesNotMatch(execFileSync("iptables-save").toString(), new RegExp(chain));
    program.kill("SIGTERM");
    await program.ends();
  });
});

describe("the daemon", () => {
  it("serves a folder with Pods instead of EndpointSlices", async () => {
    const pods = join(folder, "pods.yaml");
    writeFileSync(pods, podsAndService);
    const program = start();
    await program.prints(synced);
    const table = (): string => execFileSync("ipvsadm", ["-Ln"]).toString();
    assert.match(table(), /TCP {2}10\.96\.0\.20:80 rr\n {2}-> 10\.244\.1\.10:8080 +Masq +1 /);
    assert.doesNotMatch(table(), /10\.244\.1\.11/);
    writeFileSync(pods, podsAndService.replace('"False"', '"True"'));
    await eventually(() => / 10\.244\.1\.11:8081 +Masq +1 /.test(table()), true, patienceMs);
    rmSync(pods);
    await eventually(() => table().includes("10.96.0.20"), false, patienceMs);
  });

  it("answers on both ports and families, and leaves the kernel state unchanged when SIGTERM stops it", async () => {
    const program = start();
    await program.prints(synced);
    assert.deepEqual(await get(10249, "/proxyMode"), [200, "ipvs"]);
    assert.equal((await get(10256, "/healthz"))[0], 200);
    assert.equal((await fetch("http://[::1]:10256/livez")).status, 200);
    assert.match(
      (await get(10249, "/metrics"))[1],
      /^kubeproxy_sync_proxy_rules_duration_seconds_count/m,
    );
    const idle = await fetch("http://127.0.0.1:10249/healthz", { keepalive: true });
    assert.equal(await idle.text(), "ok");
    const sentAt = performance.now();
    program.kill("SIGTERM");
    assert.deepEqual(await program.ends(), { code: 0, signal: null });
    assert.ok(performance.now() - sentAt < 1_500, `${performance.now() - sentAt} ms`);
    assert.match(program.output, /"Shutting down, leaving kernel state in place" signal="SIGTERM"/);
    assert.match(execFileSync("ip", ["link", "show", "kube-ipvs0"]).toString(), /kube-ipvs0/);
  });

  it("also stops on SIGTERM as process 1", async () => {
    const program = start([], ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    await program.prints(synced);
    assert.match(program.output, /^I\d{4} [\d:.]+ +1 kube-ipvs:1\] /m);
    const child = execFileSync("pgrep", ["--parent", String(program.pid)])
      .toString()
      .trim();
    process.kill(Number(child), "SIGTERM");
    assert.deepEqual(await program.ends(), { code: 0, signal: null });
  });

  it("restarts immediately after SIGKILL", async () => {
    const killed = start();
    await killed.prints(synced);
    killed.kill("SIGKILL");
    assert.equal((await killed.ends()).signal, "SIGKILL");
    await start().prints(synced);
  });

  it("runs next to another instance with its own name and ports", async () => {
    await start().prints(synced);
    await start([...elsewhere, "--kube-ipvs-ignore-running-kube-proxy"]).prints(synced);
    assert.deepEqual(await get(20249, "/proxyMode"), [200, "ipvs"]);
  });

  it("works although a port is in use, reports this, and opens the port when it is free", async () => {
    const other = createServer().listen(10249, "127.0.0.1").unref();
    const program = start();
    await program.prints(synced);
    assert.match(
      program.output,
      /^E.*"Cannot listen for HTTP" server="metrics server" address="127\.0\.0\.1:10249" retry="5s" err="EADDRINUSE \(another process is using this port; to find it, run on the node: ss -ltnp\)"$/m,
    );
    other.close();
    await program.prints(/"HTTP server is listening" server="metrics server"/);
    assert.deepEqual(await get(10249, "/proxyMode"), [200, "ipvs"]);
  });
});

describe("a link kube-ipvs0 of a different kind", () => {
  const ip = (...args: readonly string[]): string =>
    execFileSync("ip", args, { encoding: "utf8" }).trim();

  it("is reported by each sync, and does not prevent --cleanup from removing everything else", async () => {
    const first = start();
    await first.prints(synced);
    first.kill("SIGTERM");
    await first.ends();
    ip("link", "delete", "kube-ipvs0");
    ip("link", "add", "kube-ipvs0", "type", "bridge");
    const isNamed = /Cannot use link kube-ipvs0: it is bridge, not a dummy link/;
    for (const form of ["addresses", "routes"]) {
      const failing = start([`--kube-ipvs-virtual-addresses=${form}`]);
      await failing.prints(isNamed);
      failing.kill("SIGTERM");
      await failing.ends();
    }
    const rules = (): string => execFileSync("sh", ["-c", listRules], { encoding: "utf8" });
    assert.match(rules(), /KUBE-SERVICES/);
    const cleaning = start(["--cleanup", "--kube-ipvs-virtual-addresses=routes"]);
    assert.deepEqual(await cleaning.ends(), { code: 1, signal: null });
    assert.match(cleaning.output, isNamed);
    assert.doesNotMatch(rules(), /KUBE-SERVICES/);
    assert.equal(execFileSync("sh", ["-c", listIpsets], { encoding: "utf8" }), "");
    assert.match(ip("-d", "link", "show", "kube-ipvs0"), /bridge/);
    ip("link", "delete", "kube-ipvs0");
  });
});

const skip = unlessIptables("iptables mode needs it");
describe("rules left by kube-proxy's iptables mode", { skip }, () => {
  const savedLines = (pattern: RegExp): readonly string[] =>
    execFileSync("iptables-save", { encoding: "utf8" })
      .split("\n")
      .filter((line) => pattern.test(line));
  const ofIptablesMode = /^:KUBE-(?:SVC|SEP|SVL|EXT|FW)-|:KUBE-(?:EXTERNAL|NODEPORTS|PROXY-CANARY)/;
  const refused = /default\/c has no endpoints/;
  const restore = (): unknown => execFileSync("iptables-restore", { input: iptablesModeRules });

  it("are reported at startup and kept until --cleanup removes them, except kubelet's rules", async () => {
    restore();
    const program = start();
    await program.prints(synced);
    assert.match(
      program.output,
      /"Found rules of kube-proxy's iptables mode" [^\n]* chainCount=12 /,
    );
    assert.deepEqual([savedLines(ofIptablesMode).length, savedLines(refused).length], [11, 2]);
    program.kill("SIGTERM");
    await program.ends();
    const cleaning = start(["--cleanup"]);
    assert.deepEqual(await cleaning.ends(), { code: 0, signal: null });
    assert.match(cleaning.output, /^ {2}iptables chains and jumps: \d+$/m);
    assert.deepEqual(savedLines(/^:KUBE-/), [
      ":KUBE-IPTABLES-HINT - [0:0]",
      ":KUBE-KUBELET-CANARY - [0:0]",
      ":KUBE-FIREWALL - [0:0]",
      ":KUBE-KUBELET-CANARY - [0:0]",
      ":KUBE-MARK-DROP - [0:0]",
    ]);
  });

  it("are removed after the first sync with removeLeftovers, except the rules of IPVS mode", async () => {
    restore();
    const program = start(["--kube-ipvs-remove-leftovers"]);
    await program.prints(
      /"Removed leftover iptables rules" .*modes="?(?:ipvs, userspace, )?iptables/,
    );
    assert.deepEqual([savedLines(ofIptablesMode), savedLines(refused)], [[], []]);
    assert.match(execFileSync("sh", ["-c", listRules], { encoding: "utf8" }), /KUBE-SERVICES/);
    const jumps = savedLines(/^-A OUTPUT .* -j KUBE-SERVICES$/).length;
    assert.equal(jumps, labRules === undefined ? 1 : 0);
    assert.doesNotMatch(program.output, /^E/m);
    assertNotLogged(program.output, "Found rules of kube-proxy's iptables mode");
  });
});

describe("the last line of a failed start", () => {
  async function refused(program: Program): Promise<string> {
    assert.deepEqual(await program.ends(), { code: 1, signal: null }, program.output);
    return program.failures.join();
  }

  it("names the first instance if a second one starts", async () => {
    const first = start();
    await first.prints(synced);
    const line = await refused(start());
    assert.ok(line.startsWith(`Cannot start a second instance: process ${first.pid} (`), line);
    assert.match(line, /kube-ipvs.*\) is running on this node; stop it first$/);
  });

  it("names the running instance if two start at the same time", async () => {
    const [one, other] = [start(), start()];
    const lost = await Promise.race([one, other].map((each) => each.ends().then(() => each)));
    const runs = lost === one ? other : one;
    const line = await refused(lost);
    assert.ok(line.startsWith(`Cannot start a second instance: process ${runs.pid} (`), line);
    await runs.prints(synced);
  });

  it("names a running kube-proxy", async () => {
    const path = join(folder, "kube-proxy");
    copyFileSync("/bin/sleep", path);
    const other = spawn(path, ["1000"]);
    try {
      assert.equal(
        await refused(start()),
        `Cannot start while kube-proxy is running: process ${other.pid} (${path} 1000); remove it from this node first, or set --kube-ipvs-wait-for-kube-proxy`,
      );
      const waiting = start(["--kube-ipvs-wait-for-kube-proxy"]);
      await waiting.prints(
        /"Waiting for kube-proxy to stop" proxy="kube-proxy is running: process/,
      );
      assertNotLogged(waiting.output, "HTTP server is listening");
      other.kill();
      await waiting.prints(/"kube-proxy has stopped, taking over"/);
      await waiting.prints(synced);
    } finally {
      other.kill();
    }
  });

  it("with a busy port and bindAddressHardFail", async () => {
    const other = createServer().listen(10249, "127.0.0.1").unref();
    assert.equal(
      await refused(start(["--bind-address-hard-fail"])),
      "Cannot listen on 127.0.0.1:10249 for the metrics server: EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)",
    );
    other.close();
  });

  it("without NET_ADMIN", async () => {
    const line = await refused(
      start([], ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-all"]),
    );
    assert.equal(
      line,
      "Cannot change the node's network: missing capability NET_ADMIN; run as root, or in a container with securityContext.capabilities.add: [NET_ADMIN, NET_RAW]",
    );
  });
});

/** Tests the operator's commands with the running program on a deliberately damaged node. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { Answers, Status } from "../../src/answer/answers.ts";
import type { NodeServices } from "../../src/answer/comparison.ts";
import type { Explanation } from "../../src/answer/explanation.ts";
import type { HistoryEntry, ServiceRow } from "../../src/answer/rows.ts";
import type { Sysdump } from "../../src/answer/sysdump.ts";
import { parseJson } from "../../src/base/parse-json.ts";
import { packed, unpacked } from "../../src/sysdump/archive.ts";
import { Connection } from "../support/client-traffic.ts";
import { listsInvalidObject } from "../support/invalid-object.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { ip } from "../support/records.ts";
import { judgedRivals, rivalServices } from "../support/rival-services.ts";
import {
  differencesOf,
  explained,
  judgedConflicts,
  kubeIpvs,
  plannedOf,
  program,
} from "../support/run-kube-ipvs.ts";
import { TmuxTerminal } from "../support/tmux-terminal.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const web = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
/** A foreign virtual server at an address that a Service claims. */
const foreign = "10.96.0.11:80";
/** The kernel rejects a broadcast address as a real server: EINVAL. */
const broadcast = "192.168.10.255";

const one = endpoint(first.address, { nodeName: "node-1" });
const two = endpoint(second.address, { nodeName: "node-1" });
const notReady = endpoint("10.244.1.30", {
  nodeName: "node-2",
  conditions: { ready: false, serving: false, terminating: false },
});

function webOf(...endpoints: readonly ReturnType<typeof endpoint>[]): readonly ApiObject[] {
  return [service(), endpointSlice({ endpoints })];
}

const broken: readonly ApiObject[] = [
  service({ name: "api", clusterIps: ["10.96.0.11"] }),
  endpointSlice({ service: "api", endpoints: [second.address] }),
  service({ name: "bad", clusterIps: ["10.96.0.12"] }),
  endpointSlice({ service: "bad", endpoints: [second.address, broadcast] }),
];

const vip = { protocol: "TCP", address: ip("203.0.113.10"), port: 80 } as const;
const ranged: readonly ApiObject[] = [
  service({
    name: "ranged",
    type: "LoadBalancer",
    clusterIps: ["10.96.0.13"],
    spec: { loadBalancerSourceRanges: ["198.51.100.0/24"] },
    status: { loadBalancer: { ingress: [{ ip: vip.address }] } },
  }),
  endpointSlice({ service: "ranged", endpoints: [first.address] }),
];

function servicesOf(name: string): readonly ServiceRow[] {
  const { out } = kubeIpvs("services", name, "-o", "json");
  return (parseJson(out) as { readonly items: readonly ServiceRow[] }).items;
}

function historyOf(): readonly HistoryEntry[] {
  return (parseJson(kubeIpvs("history", "-o", "json").out) as Answers["History"]).items;
}

/** `10.244.1.10 drifted`, or only the address if the endpoint accepts connections. */
function endpointsOf(name: string): readonly string[] {
  const [row] = servicesOf(name);
  return (row?.endpoints ?? []).map(({ address, reason }) => `${address} ${reason ?? "-"}`);
}

describe("the operator's commands", () => {
  let node: LabNode;
  let fresh: ReturnType<typeof kubeIpvs>;

  before(async () => {
    node = await LabNode.build([first, second]);
    node.apply(...webOf(one, two, notReady));
    fresh = kubeIpvs("plan", ...node.flags);
    await node.start([
      "--ipvs-sync-period=1h",
      "--kube-ipvs-verification-period=1h",
      "--kube-ipvs-rule-check-period=1h",
      "--kube-ipvs-traffic-metrics=endpoint",
      "--kube-ipvs-run-estimation=on",
      "--kube-ipvs-estimator-cpus=0",
    ]);
  });
  after(() => node.destroy());

  it("report that everything is fine, on a socket that only root can use", (test) => {
    const { code, out } = kubeIpvs("status");
    test.diagnostic(out);
    assert.match(out, /^OK, 1 Service, last sync \d+ s ago, took \d+\.\d ms\n/);
    assert.match(out, /^Virtual servers +1, and 0 foreign$/m);
    assert.equal(code, 0);
    assert.equal(statSync("/run/kube-ipvs/kube-ipvs.sock").mode & 0o777, 0o600);
  });

  it("plan everything on a fresh node, and say why the exit code is 2", () => {
    const { code, out, err } = fresh;
    assert.equal(code, 2, err);
    assert.match(out, /^Link: 1\n {2}\+ kube-ipvs0 {2}# missing$/m);
    assert.match(out, /\n\n\d{2,} changes would be made, so plan exits with 2\.\n$/);
  });

  it("list an invalid object until it is repaired", () =>
    listsInvalidObject(node, webOf(one, two, notReady)));

  it("plan with the configuration of the running daemon", () => {
    const { code, out } = kubeIpvs("plan");
    assert.deepEqual([code, out], [0, "No changes.\n"]);
  });

  it("plan the changes from applying a file, and change nothing", (test) => {
    const annotations = { "kube-ipvs.io/scheduler": "wlc" };
    const { code, out } = plannedOf(
      service({ metadata: { annotations } }),
      endpointSlice({ endpoints: [one, notReady] }),
      service({ name: "new", clusterIps: ["10.96.0.19"] }),
    );
    test.diagnostic(out);
    assert.equal(code, 2);
    assert.match(out, /^ {2}~ TCP 10\.96\.0\.10:80 \(rr -> wlc\) .*service default\/web$/m);
    assert.match(out, /^ {2}\S .*10\.96\.0\.10:80 -> 10\.244\.1\.20:8080 .*service default\/web$/m);
    assert.match(out, /^ {2}\+ TCP 10\.96\.0\.19:80 \(rr\) .*service default\/new$/m);
    assert.doesNotMatch(out, /10\.244\.1\.10/);
    const same = plannedOf(...webOf(one, two, notReady));
    assert.deepEqual([same.code, same.out], [0, "No changes.\n"]);
    const unknown = plannedOf(service({ clusterIps: ["x"] }));
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /^kube-ipvs plan: .*"x" is not an IP address/m);
    assert.doesNotMatch(shell("ipvsadm -Sn"), /wlc|10\.96\.0\.19/);
  });

  it("write one archive for an issue, and print it", (test) => {
    const path = join(tmpdir(), "dump.tar.gz");
    const written = kubeIpvs("sysdump", "svc/web", "-f", path);
    test.diagnostic(written.out + written.err);
    assert.equal(written.code, 0);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const { parts } = parseJson(kubeIpvs("show", path, "-o", "json").out) as Sysdump;
    const complete = parts.filter(({ note }) => note === undefined).map(({ name }) => name);
    for (const name of ["status", "config", "services", "drains", "explain", "doctor", "plan"])
      assert.ok(complete.includes(`${name}.json`), name);
    for (const name of ["node", "sysctls", "metrics", "ipvs", "ipsets", "addresses", "routes"])
      assert.ok(complete.includes(`${name}.txt`), name);
    const show = (part: string): string => kubeIpvs("show", path, part).out;
    assert.match(show("status"), /^OK, 1 Service/);
    assert.match(show("plan"), /^No changes\.$/m);
    assert.match(show("explain"), /balanced over 2 of 3 endpoints/);
    assert.match(
      show("ipvs"),
      /^TCP 10\.96\.0\.10:80 rr.*\n {2}-> 10\.244\.1\.\d0:8080 weight 1,/m,
    );
    assert.match(show("ipsets"), /^add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80$/m);
    assert.match(show("sysctls"), /^net\/ipv4\/vs\/conntrack = 1$/m);
    assert.match(show("metrics"), /^kube_ipvs_/m);
    assert.match(show("routes"), /^10\.244\.[\d.]+\/\d+ via /m);
    const missing = kubeIpvs("show", path, "nothing");
    assert.deepEqual([missing.code, missing.out], [1, ""]);
    const explained = (...args: readonly string[]): readonly string[] => {
      const { code, out, err } = kubeIpvs("explain", ...args, "-o", "json");
      assert.equal(code, 0, err);
      const { items } = parseJson(out) as { readonly items: readonly Explanation[] };
      return items.map(({ summary, packets, differences }) =>
        JSON.stringify({ summary, packets, differences }),
      );
    };
    const recorded = explained("--from-dump", path);
    assert.deepEqual(recorded, explained("svc/web"));
    assert.deepEqual(explained("--from-dump", path, "svc/web"), recorded);
    shell("iptables -w 5 -I INPUT -p tcp --dport 80 -j DROP");
    const asked = ["--from", "192.168.10.1", "--to", "10.96.0.10:80"];
    const { code, out, err } = kubeIpvs("explain", "--from-dump", path, ...asked);
    assert.deepEqual([code, kubeIpvs("explain", ...asked).code], [0, 2], out);
    shell("iptables -w 5 -D INPUT -p tcp --dport 80 -j DROP");
    assert.match(out, /are balanced over 2 of 3 endpoints/);
    assert.match(err, /does not contain the routes and connections of /);
    const other = kubeIpvs("explain", "--from-dump", path, "10.96.0.99:80");
    assert.deepEqual([other.code, other.out], [1, ""]);
    assert.match(other.err, /has no 10\.96\.0\.99:80; kube-ipvs sysdump SERVICE records it/);
    const files = unpacked(readFileSync(path));
    const text = files.parts.get("node-state.json")?.replace('"servers"', '"server"') ?? "";
    const edited = join(tmpdir(), "edited.tar.gz");
    writeFileSync(
      edited,
      packed({ ...files, parts: new Map([...files.parts, ["node-state.json", text]]) }),
    );
    const rejected = kubeIpvs("explain", "--from-dump", edited);
    assert.deepEqual([rejected.code, rejected.out], [1, ""]);
    assert.match(rejected.err, /node-state\.json was changed after kube-ipvs sysdump wrote it$/m);
  });

  it("compare what nodes serve", () => {
    const { out } = kubeIpvs("compare", "web", "-o", "json");
    const answer = parseJson(out) as NodeServices;
    assert.equal(answer.items[0]?.endpoints?.length, 3);
    assert.deepEqual([answer.problems, kubeIpvs("compare").code], [[], 0]);
    const other = JSON.stringify(answer).replaceAll("10.244.1.20", "10.244.1.99");
    const lines = [`= n1 0`, `|${JSON.stringify(answer)}`, `= n2 0`, `|${JSON.stringify(answer)}`];
    const answers = join(mkdtempSync(join(tmpdir(), "kube-ipvs-answers-")), "answers");
    const compared = (...more: readonly string[]): string => {
      writeFileSync(answers, [...lines, ...more, ""].join("\n"));
      return shell(`${program} __nodes compare < ${answers} || true`);
    };
    assert.equal(compared(), "2 nodes compared: no differences\n");
    assert.match(
      compared("= n3 0", `|${other}`),
      /^n3 +default\/web:http +TCP 10\.96\.0\.10:80 .*lacks endpoint in use 10\.244\.1\.20:8080/m,
    );
  });

  it("write an archive without addresses and names", () => {
    const path = join(tmpdir(), "redacted.tar.gz");
    assert.equal(kubeIpvs("sysdump", "--redact", "-f", path).code, 0);
    const { index, parts } = unpacked(readFileSync(path));
    const all = JSON.stringify(index) + [...parts.values()].join("\n");
    const hidden = /\b(?:10\.96\.0\.10|10\.244\.1\.[12]0|192\.168\.10\.1\d?|default\/web|node-1)\b/;
    assert.doesNotMatch(all, hidden);
    assert.match(kubeIpvs("show", path, "status").out, /^OK, 1 Service/);
    const { code, err } = kubeIpvs("explain", "--from-dump", path);
    assert.equal(code, 1);
    assert.match(err, /has no node-state \(omitted because it contains addresses in binary form\)/);
  });

  it("show each endpoint of a Service with the kernel's connection counts", async (test) => {
    const connection = await Connection.open(web.address, web.port, "echo");
    await connection.receives(1);
    const { code, out } = kubeIpvs("services", "web");
    test.diagnostic(out);
    assert.equal(code, 0);
    assert.match(
      out,
      /^default +web +http +ClusterIP +TCP +10\.96\.0\.10:80 +cluster-ip +rr +- +Cluster +2\/2 /m,
    );
    assert.match(out, /^ +10\.244\.1\.30:8080 +node-2 +not-ready +no .* not-ready$/m);
    const active = servicesOf("web")[0]?.endpoints?.map((one) => one.activeConnections ?? 0) ?? [];
    assert.equal(
      active.reduce((sum, count) => sum + count, 0),
      1,
    );
    assert.equal(kubeIpvs("services", "-A", "-o", "name").out, "default/web\n");
    assert.equal(kubeIpvs("services", "10.96.0.10:80", "-o", "name").out, "default/web\n");
    assert.match(kubeIpvs("services", "10.96.0.10:81").err, /No Service at 10\.96\.0\.10:81, /);
    assert.match(
      kubeIpvs("explain", "svc/web", "-o", "short").out,
      /^Packets to 10\.96\.0\.10:80 \(default\/web, cluster-ip\) from [^\n]* balanced over 2 of 3 [^\n]*\n$/,
    );
    const explanation = kubeIpvs("explain", "--from", "192.168.10.1", "--to", "10.96.0.10:80");
    test.diagnostic(explanation.out);
    assert.equal(explanation.code, 0);
    const lines = explanation.out.split("\n");
    assert.equal(
      lines[0],
      "Packets from 192.168.10.1 to 10.96.0.10:80 are balanced over 2 of 3 endpoints and masqueraded",
    );
    assert.ok(lines.includes("  no difference"), "kernel and plan are alike");
    const remembered = /^ {2}(?:IPVS|conntrack): 192\.168\.10\.1:\d+.* 10\.244\.1\.\d0:8080/gm;
    assert.equal(explanation.out.match(remembered)?.length, 2);
    connection.reset();
  });

  it("explain which objects a third party removed, and which remain", (test) => {
    const lines = [
      "ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.20:8080",
      "iptables -w 5 -t nat -F KUBE-MARK-MASQ",
      "ipvsadm -A -t 10.96.0.10:81 -s rr",
    ];
    shell(lines.join("\n"));
    const { out } = kubeIpvs("explain", "--from", "node", "--to", "10.96.0.10:80");
    test.diagnostic(out);
    assert.match(out, /^Packets from this node .* over 1 of 3 endpoints and not masqueraded\n/);
    assert.match(out, /^ {2}Planned +Packets .* over 2 of 3 endpoints and masqueraded$/m);
    assert.deepEqual(out.match(/^ {2}(?:missing|not planned|different): .*$/gm), [
      "  missing: rule nat KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
      "  missing: real server 10.244.1.20:8080 of TCP 10.96.0.10:80",
    ]);
    const [leftover] = explained("10.96.0.10:81");
    assert.equal(leftover?.service, undefined);
    assert.equal(leftover?.verdict, "refused");
    assert.ok(differencesOf(leftover).includes("not-planned virtual server TCP 10.96.0.10:81"));
    const repairs = [
      "ipvsadm -D -t 10.96.0.10:81",
      "iptables -w 5 -t nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
      "ipvsadm -a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m",
    ];
    shell(repairs.join("\n"));
  });

  it("report that all endpoints have reached their connection limits", async () => {
    const limit = (count: number) =>
      ["10.244.1.10", "10.244.1.20"]
        .map((pod) => `ipvsadm -e -t 10.96.0.10:80 -r ${pod}:8080 -m -w 1 -x ${count}`)
        .join("\n");
    shell(limit(1));
    const open = [0, 1].map(async () => await Connection.open(web.address, web.port, "echo"));
    const connections = await Promise.all(open);
    for (const connection of connections) await connection.receives(1);
    const { code, out } = kubeIpvs("explain", "--from", "192.168.10.1", "--to", "10.96.0.10:80");
    assert.match(out, /are refused because every endpoint has reached its connection limit/);
    assert.equal(code, 2);
    const third =
      "ip netns exec client bash -c ': < /dev/tcp/10.96.0.10/80' && echo open || echo refused";
    assert.equal(shell(third).trim(), "refused");
    assert.match(
      kubeIpvs("doctor").out,
      /are refused because every endpoint has reached its connection limit/,
    );
    for (const connection of connections) connection.reset();
    shell(limit(0));
  });

  it("count the connections that an endpoint does not answer", async () => {
    const open = "(: < /dev/tcp/10.96.0.10/80) &";
    shell(`
      ip -n pod-2 rule add pref 0 blackhole
      timeout 8 ip netns exec client bash -c '${open} ${open} wait' || true
    `);
    await pause(3_000);
    const { out } = kubeIpvs("explain", "web");
    assert.match(
      out,
      /Unanswered new connections: 1 .*10\.244\.1\.20:8080 does not answer: check whether the pod/,
    );
    shell("ip -n pod-2 rule del pref 0 blackhole");
  });

  it("show the same traffic as /metrics", async (test) => {
    const labels = 'namespace="default",service="web",port="http",protocol="TCP"';
    const name = `kube_ipvs_service_connections_total{${labels}}`;
    const before = await node.metric(name);
    for (let count = 0; count < 4; count += 1) {
      const connection = await Connection.open(web.address, web.port, "echo");
      await connection.receives(1);
      connection.reset();
    }
    // Traffic is read every 5 s, and the kernel updates its counters every 2 s.
    await until(
      async () => (await node.metric(name)) === before + 4,
      patienceMs,
      async () => await (await fetch("http://127.0.0.1:10249/metrics")).text(),
    );
    const text = await (await fetch("http://127.0.0.1:10249/metrics")).text();
    const lines = text.split("\n").filter((line) => /^kube_ipvs_(service|endpoint)_/.test(line));
    test.diagnostic(`\n${lines.join("\n")}`);
    const sum = (metric: string): number =>
      lines
        .filter((line) => line.startsWith(metric))
        .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" "))), 0);
    for (const figure of ["connections_total", "incoming_bytes_total", "outgoing_packets_total"]) {
      const ofService = sum(`kube_ipvs_service_${figure}`);
      assert.ok(ofService >= 4, figure);
      assert.equal(sum(`kube_ipvs_endpoint_${figure}`), ofService, figure);
    }
    const hasThreads = existsSync("/proc/sys/net/ipv4/vs/est_cpulist");
    const isSkipped = node.program.output.includes("Skipping sysctl");
    assert.equal(isSkipped, !hasThreads);
  });

  it("show live traffic in a terminal, and restore the terminal", async (test) => {
    const connection = await Connection.open(web.address, web.port, "echo");
    const terminal = new TmuxTerminal(110, 14);
    try {
      terminal.run(`${program} top; echo ended with $?`);
      const rate = "[0-9.]+[kM]?";
      const counted = new RegExp(
        `^> +(?!0 )${rate} +${rate} +${rate} +[12] +\\d+  default/web:http TCP  10\\.96\\.0\\.10:80$`,
        "m",
      );
      // Each attempt reads the traffic of another connection.
      let screen = "";
      const hasCounted = async (): Promise<boolean> => {
        (await Connection.open(web.address, web.port, "echo")).reset();
        await pause(900);
        screen = terminal.screen();
        return counted.test(screen);
      };
      await until(hasCounted, patienceMs, async () => screen);
      test.diagnostic(`\n${screen}`);
      assert.match(screen, /^kube-ipvs top - 1 Service port, by conns\/s, every 2s$/m);
      terminal.press("Enter");
      await terminal.shows(/^ +(\S+ +){5}10\.244\.1\.20:8080 +1$/m);
      test.diagnostic(`\n${terminal.screen()}`);
      assert.match(terminal.screen(), /^kube-ipvs top - 2 endpoints of default\/web:http TCP,/);
      terminal.press("Escape", "/", "z", "z", "Enter");
      await terminal.shows(/^kube-ipvs top - 0 of 1 Service port/);
      terminal.press("Escape");
      terminal.resize(60, 6);
      await terminal.shows(
        /^kube-ipvs top - 1 Service port,.*(?:\n.*){2}\n>.*\n.*\nenter endpoints.*…\n$/,
      );
      terminal.press("q");
      await terminal.shows(/^ended with 0$/m);
      assert.equal(terminal.format("#{alternate_on} #{cursor_flag}"), "0 1");
      terminal.resize(110, 14);
      terminal.run(`${program} top; echo ended with $?`);
      await terminal.shows(/^kube-ipvs top - 1 Service port/);
      assert.equal(terminal.format("#{alternate_on} #{cursor_flag}"), "1 0");
      shell("pkill -TERM -f '[k]ube-ipvs[a-z.]* top'");
      await terminal.shows(/^ended with 143$/m);
      assert.equal(terminal.format("#{alternate_on} #{cursor_flag}"), "0 1");
    } finally {
      terminal.end();
      connection.reset();
    }
  });

  it("print one table of traffic without a terminal, and say which figures the kernel does not count", (test) => {
    shell("sysctl -qw net.ipv4.vs.run_estimation=0");
    const { code, out, err } = kubeIpvs("top");
    test.diagnostic(out);
    assert.match(err, /^The IPVS estimator is off \(net\.ipv4\.vs\.run_estimation=0\)/);
    assert.match(out, /^CONNS\/S .*\n +- +- +- +\d+ +\d+ {2}default\/web:http TCP {2}10\.96/);
    assert.equal(code, 0);
    shell("sysctl -qw net.ipv4.vs.run_estimation=1");
    const answer = parseJson(kubeIpvs("top", "web", "-o", "json").out) as {
      readonly items: readonly { readonly total: { readonly connections: number } }[];
    };
    assert.ok((answer.items[0]?.total.connections ?? 0) >= 2);
  });

  it("find a real server that a third party removed before it is repaired", () => {
    shell("ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.20:8080");
    assert.deepEqual(endpointsOf("web"), [
      "10.244.1.10 -",
      "10.244.1.20 drifted",
      "10.244.1.30 not-ready",
    ]);
    const { code, out } = kubeIpvs("status");
    assert.match(out, /^Degraded: A third party changed real servers of TCP 10\.96\.0\.10:80/);
    assert.equal(code, 2);
    shell("ipvsadm -a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m");
    assert.match(kubeIpvs("status").out, /^OK, /);
  });

  it("report rejected objects and foreign virtual servers, and why the node is degraded", async (test) => {
    shell(`ipvsadm -A -t ${foreign} -s wlc; ipvsadm -a -t ${foreign} -r 172.30.0.9:80 -m`);
    node.apply(...webOf(one, two, notReady), ...broken);
    await node.program.prints(/Kernel rejected a change/);
    await node.program.prints(/Foreign virtual server occupies a Service address/);
    assert.deepEqual(endpointsOf("bad"), ["10.244.1.20 -", `${broadcast} EINVAL`]);
    const [api] = servicesOf("api");
    assert.equal(api?.reason, "foreign-virtual-server");
    const [explainedApi] = explained("svc/api", "--from", "node");
    assert.match(explainedApi?.packets[0]?.planned ?? "", /over 1 of 1 endpoint and masqueraded$/);
    assert.ok(
      differencesOf(explainedApi).some((text) => /^different virtual server .*wlc/.test(text)),
    );
    assert.ok(
      differencesOf(explainedApi).includes(
        "not-planned real server 172.30.0.9:80 of TCP 10.96.0.11:80",
      ),
    );
    const [explainedBad] = explained("svc/bad", "--from", "node");
    assert.match(explainedBad?.summary ?? "", /over 1 of 2 endpoints/);
    assert.deepEqual(
      explainedBad?.endpoints.map(({ reason }) => reason),
      [undefined, "EINVAL"],
    );
    const { code, out } = kubeIpvs("status");
    test.diagnostic(out);
    test.diagnostic(kubeIpvs("services").out);
    assert.match(out, /^Virtual servers +2, and 1 foreign$/m);
    assert.equal(code, 2);
    assert.match(
      out,
      /^Degraded: 1 object rejected by the kernel \(EINVAL\) \(for \d+ s\); 1 Service address not served \(foreign-virtual-server\)/,
    );
    const status = parseJson(kubeIpvs("status", "-o", "json").out) as Status;
    assert.deepEqual(status.rejectedObjects[0]?.services, ["default/bad"]);
    const events = historyOf().filter(({ event }) => event === "rejected");
    assert.deepEqual(
      events.map(({ subject, services }) => [subject, services]),
      [[`TCP 10.96.0.12:80 -> ${broadcast}:8080`, ["default/bad"]]],
    );
    assert.match(events[0]?.detail ?? "", /^EINVAL: /);
    const elapsedMs = Date.now() - Date.parse(events[0]?.time ?? "");
    assert.ok(elapsedMs >= 0 && elapsedMs < 120_000, `${elapsedMs} ms`);
    assert.equal(status.conflicts[0]?.service, "default/api");
    assert.equal(
      judgedConflicts(),
      `warn: default/api: TCP ${foreign} is a virtual server of other software on this node, so kube-ipvs keeps it and does not serve the Service there (foreign-virtual-server); remove it with ipvsadm -D, or give Service default/api a different address or port`,
    );
  });

  it("name the Service that owns a contested address and port", async () => {
    shell(`ipvsadm -D -t ${foreign}`);
    node.apply(...webOf(one), ...rivalServices(first.address));
    await node.program.prints(/Virtual server is claimed by another Service/);
    assert.equal(judgedConflicts(), judgedRivals);
    assert.deepEqual(
      historyOf().map(({ event }) => event),
      ["rejected", "rejection-ended"],
    );
    const status = parseJson(kubeIpvs("status", "-o", "json").out) as Status;
    assert.deepEqual(
      status.conflicts.map((conflict) => conflict.service),
      ["default/later"],
    );
    const lost = servicesOf("later").find(({ frontend }) => frontend === "external-ip");
    assert.equal(lost?.reason, "claimed-by-another-service");
  });

  it("explain which clients a source range contains", async () => {
    node.apply(...webOf(one), ...ranged);
    await node.hasWeights(vip, "pod-1 1");
    const [{ packets = [], differences } = {}] = explained("203.0.113.10:80");
    assert.deepEqual(differences, []);
    assert.deepEqual(
      packets.map(({ from, verdict, sourceRange }) => `${from}: ${verdict}, ${sourceRange}`),
      [
        "this node: dropped, this node has access if one of 198.51.100.0/24 contains its node address",
        "pods (10.244.0.0/16): dropped, 10.244.0.0 is in none of 198.51.100.0/24",
        "elsewhere: dropped, 192.0.2.1 is in none of 198.51.100.0/24",
        "198.51.100.0/24 (a source range): balanced, 198.51.100.0/24 lets 198.51.100.0 in",
      ],
    );
    assert.match(
      packets[0]?.summary ?? "",
      /are dropped behind IPVS by filter KUBE-IPVS-OUT-FILTER/,
    );
  });

  it("list draining real servers with their connections", async (test) => {
    node.apply(...webOf(one));
    await node.hasWeights(web, "pod-1 1");
    assert.equal(kubeIpvs("drains").out, "No real servers are draining\n");
    const connection = await Connection.open(web.address, web.port, "echo");
    await connection.receives(1);
    node.apply(...webOf(two));
    await node.hasWeights(web, "pod-1 0, pod-2 1");
    const { code, out } = kubeIpvs("drains");
    test.diagnostic(out);
    test.diagnostic(kubeIpvs("services", "web").out);
    assert.equal(code, 0);
    assert.match(
      out,
      /^AGE .*\n\d+ s +in 1[45] min.* default +web +TCP +10\.96\.0\.10:80 +10\.244\.1\.10:8080 +1 +\d+\n$/,
    );
    assert.deepEqual(endpointsOf("web"), ["10.244.1.20 -", "10.244.1.10 endpoint-removed"]);
    connection.reset();
    await until(
      async () => kubeIpvs("status").code === 0,
      patienceMs,
      async () => kubeIpvs("status").out,
    );
  });

  it("report a hanging daemon without waiting for it", () => {
    const { pid } = node.program;
    process.kill(pid, "SIGSTOP");
    try {
      const { code, out } = kubeIpvs("status");
      assert.equal(code, 2);
      assert.match(
        out,
        /^Degraded: kube-ipvs is running \(process \d+\), but does not answer on its operator socket \S+ \(no answer within 5 s\)\. The kernel keeps serving\. /,
      );
      const services = kubeIpvs("services");
      assert.equal(services.code, 1);
      assert.match(services.err, /^kube-ipvs services: Cannot query .*: no answer within 5 s$/m);
    } finally {
      process.kill(pid, "SIGCONT");
    }
  });

  it("report that no daemon is running, and show what a start would find", async (test) => {
    await node.stop("SIGKILL");
    const status = kubeIpvs("status");
    test.diagnostic(status.out);
    assert.match(status.out, /^Not running: .*\(ECONNREFUSED\)\n$/);
    assert.equal(status.code, 2);
    const drains = kubeIpvs("drains", ...node.flags);
    assert.match(
      drains.err,
      /No kube-ipvs daemon on this node answers .*; showing what the daemon would find at startup/,
    );
    assert.equal(drains.code, 0);
    const { code, out, err } = kubeIpvs("services", "web", ...node.flags);
    test.diagnostic(out);
    assert.match(
      err,
      /No kube-ipvs daemon on this node answers .*; showing what the daemon would find at startup/,
    );
    assert.match(out, /^ +10\.244\.1\.20:8080 +node-1 +ready +yes +- +1 +0 +\d+ /m);
    assert.equal(code, 0);
  });

  it("show what a start would change, and change nothing", (test) => {
    node.apply(...webOf(one, two));
    const { code, out, err } = kubeIpvs("plan", ...node.flags);
    test.diagnostic(out);
    assert.equal(code, 2, err);
    assert.match(out, /^Real servers: 1\n {2}\S+ .*10\.244\.1\.10:8080.*# .*default\/web$/m);
    assert.doesNotMatch(shell("ipvsadm -Sn"), /10\.244\.1\.10:8080 -m -w 1/);
  });

  it("write an archive with the other parts, and name those that need a daemon", () => {
    const path = join(tmpdir(), "stopped.tar.gz");
    assert.equal(kubeIpvs("sysdump", "-f", path, ...node.flags).code, 0);
    const { parts } = parseJson(kubeIpvs("show", path, "-o", "json").out) as Sysdump;
    const noteOf = (name: string) => parts.find((one) => one.name === name)?.note;
    assert.match(noteOf("status.json") ?? "", /^Cannot query kube-ipvs on /);
    assert.equal(noteOf("log.txt"), "no daemon is running");
    for (const name of ["doctor.json", "plan.json", "ipvs.txt"])
      assert.equal(noteOf(name), undefined);
  });

  it("list what would drain after a start", (test) => {
    node.apply(...webOf(two));
    const server = `${web.address}:${web.port}`;
    shell(`ipvsadm -a -t ${server} -r 10.244.1.77:8080 -m -w 0`);
    const { out } = kubeIpvs("drains", ...node.flags);
    test.diagnostic(out);
    assert.match(
      out,
      /^\d+ s +in 1[45] min.* default +web +TCP +10\.96\.0\.10:80 +10\.244\.1\.77:8080 +0 +0$/m,
    );
    shell(`ipvsadm -d -t ${server} -r 10.244.1.77:8080`);
  });

  it("show what a clean-up would remove, and remove nothing", (test) => {
    const { code, out, err } = kubeIpvs("plan", "--cleanup");
    test.diagnostic(out);
    assert.equal(code, 2, err);
    assert.match(out, /^Virtual servers: \d+\n {2}- TCP 10\.96\.0\.10:80 /m);
    assert.match(out, /^iptables chains and jumps: [1-9]\d\n/m);
    assert.match(out, /^Link: 1\n {2}- kube-ipvs0 /m);
    assert.match(out, /^Sets: \d\d\n/m);
    assert.match(out, /^Files: \d\n(?: {2}- .*\n)* {2}- \/run\/kube-ipvs\/kube-ipvs\.sock$/m);
    assert.match(shell("ipvsadm -Sn"), /-A -t 10\.96\.0\.10:80/);
  });

  it("plan the same with the configuration of a daemon that only observes", async () => {
    node.apply(...webOf(one, two), service({ name: "new", clusterIps: ["10.96.0.19"] }));
    const { out } = kubeIpvs("plan", ...node.flags);
    assert.match(out, /10\.96\.0\.19:80 .*service default\/new$/m);
    await node.start(["--kube-ipvs-observe-only"]);
    const observed = kubeIpvs("plan");
    await node.stop("SIGTERM");
    assert.deepEqual([observed.code, observed.out], [2, out], observed.err);
  });
});

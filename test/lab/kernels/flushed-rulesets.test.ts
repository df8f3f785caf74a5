/**
 * Tests what happens if other software deletes or creates kube-ipvs's nf_tables tables: rules and sets return at once,
 * connections continue, and clients outside the source ranges get through for at most a moment. Needs a kernel with
 * nf_tables. TEST_FLUSHES is the number of flushes in the test that flushes once a minute.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { setImmediate as immediately, setTimeout as pause } from "node:timers/promises";
import type { Answers } from "../../../src/answer/answers.ts";
import { silentLogger } from "../../../src/base/log.ts";
import { parseJson } from "../../../src/base/parse-json.ts";
import { type OpenKernel, openKernel } from "../../../src/kernel/open-kernel.ts";
import { setFor } from "../../../src/plan/sets.ts";
import { askName, Connection } from "../../support/client-traffic.ts";
import { LabNode, until } from "../../support/lab-node.ts";
import { enterNetworkNamespace, shell } from "../../support/netns/network-namespace.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../../support/objects.ts";
import { pauseAfterCheck } from "../../support/pause-after-check.ts";
import { kubeIpvs } from "../../support/run-kube-ipvs.ts";
import { countOf } from "../../support/seeds.ts";

const pod = { name: "pod-1", address: "10.244.1.10" };
const endpoints = [endpoint(pod.address, { nodeName: "node-1" })];
const clusterIp = "10.96.0.10";
/** A load-balancer IP whose source ranges contain the client, and one whose source ranges do not. */
const [open, closed] = ["203.0.113.10", "203.0.113.20"];

function limited(name: string, address: string, serviceIp: string, range: string): ApiObject {
  return service({
    ...{ name, type: "LoadBalancer", clusterIps: [serviceIp] },
    spec: { loadBalancerSourceRanges: [range] },
    status: { loadBalancer: { ingress: [{ ip: address }] } },
  });
}

const objects = [
  service(),
  limited("open", open, "10.96.0.11", "192.168.10.0/24"),
  limited("closed", closed, "10.96.0.12", "192.0.2.0/24"),
  ...["web", "open", "closed"].map((name) => endpointSlice({ service: name, endpoints })),
];
/** Disables the periodic rule check. The set check cannot be disabled. */
const flags = ["--kube-ipvs-rules=nftables", "--kube-ipvs-rule-check-period=1h"];

/**
 * Rules must be complete within this time after a flush. Only until then may clients outside the source ranges get
 * through.
 */
const mostMs = 1_000;
/** Each object is repaired at most once in this time, so a flush soon after a repair leaves rules missing for longer. */
const repairIntervalMs = 1_000;
const noticedMs = 60_000;
const connectionCount = 10;
/** Time between two checks while the rules are incomplete, and afterwards. */
const [denseTickMs, tickMs] = [20, 100];
/** A blocked SYN is not retransmitted within this time. */
const connectMs = 300;
/** Connections that got through are used for this time, to see when they are blocked again. */
const heldMs = 2_000;

let node: LabNode;
let kernel: OpenKernel;

before(async () => {
  node = await LabNode.build([pod]);
  shell("ip -n client route add 203.0.113.0/24 via 192.168.10.11");
  kernel = await openKernel({ log: silentLogger, rules: "nftables" });
});
beforeEach(() => node.apply(...objects));
afterEach(async () => {
  await node.clear();
  shell("nft flush ruleset");
});
after(async () => {
  kernel.close();
  await node.destroy();
});

/** All rules, and the entries of cluster IPs. */
async function written(): Promise<string> {
  const chains = [
    ...(await kernel.iptables.observe("IPv4")),
    ...(await kernel.iptables.observe("IPv6")),
  ].map((chain) => JSON.stringify(chain));
  const entries = await kernel.ipSets.listEntries(setFor("clusterIp", "IPv4"));
  return [...chains.toSorted(), ...entries.toSorted()].join("\n");
}

/** Connects from the client and keeps sending. Calls back when the connection is established, and for each answer. */
async function knock(address: string, onAnswer: (isFirst: boolean) => void): Promise<void> {
  enterNetworkNamespace("client");
  const socket = connect(80, address);
  socket.on("error", () => {});
  // The socket is opened in the next tick.
  await immediately();
  enterNetworkNamespace("node");
  const expiry = setTimeout(() => socket.destroy(), connectMs);
  socket.once("connect", () => {
    clearTimeout(expiry);
    onAnswer(true);
    socket.write("echo\n");
    const pings = setInterval(() => socket.write("ping\n"), denseTickMs);
    socket.once("close", () => clearInterval(pings));
    setTimeout(() => socket.resetAndDestroy(), heldMs);
  });
  socket.on("data", () => onAnswer(false));
}

interface Seen {
  /** The longest time after a flush until the rules were complete again. */
  readonly withoutRulesMs: number;
  /** The longest time between a flush and an answer to a client outside the source ranges. */
  readonly admittedMs: number;
  readonly knocks: number;
  readonly admitted: number;
}

/**
 * Flushes the ruleset this many times, each time after the rules have returned. Asserts after each flush that the rules
 * return in time, and that no client outside the source ranges gets an answer afterwards.
 */
async function flushAndLook(
  times: number,
  intervalMs: number,
  talking: readonly Connection[] = [],
): Promise<Seen> {
  const wanted = await written();
  let [withoutRulesMs, admittedMs, knocks, admitted, flushedAtMs] = [0, 0, 0, 0, 0];
  const elapsedMs = (): number => performance.now() - flushedAtMs;
  for (let time = 0; time < times; time += 1) {
    // Counted from the start of the program, because the time of the flush is not known.
    flushedAtMs = performance.now();
    await once(spawn("nft", ["flush", "ruleset"]), "close");
    let isWhole = false;
    while (!isWhole || elapsedMs() < intervalMs) {
      const looksAtMs = performance.now();
      for (const connection of talking) connection.write("ping\n");
      knocks += 1;
      await knock(closed, (isFirst) => {
        admitted += isFirst ? 1 : 0;
        admittedMs = Math.max(admittedMs, elapsedMs());
      });
      if (!isWhole) {
        const found = await written();
        isWhole = found === wanted;
        withoutRulesMs = Math.max(withoutRulesMs, elapsedMs());
        if (elapsedMs() > noticedMs) assert.equal(found, wanted, node.program.output);
      }
      await pauseAfterCheck(looksAtMs, isWhole ? tickMs : denseTickMs);
    }
    const seen = { withoutRulesMs, admittedMs, knocks, admitted };
    const limitMs = intervalMs > repairIntervalMs ? mostMs : mostMs + repairIntervalMs;
    assert.ok(withoutRulesMs <= limitMs && admittedMs <= limitMs, textOf(seen));
  }
  return { withoutRulesMs, admittedMs, knocks, admitted };
}

function textOf({ withoutRulesMs, admittedMs, knocks, admitted }: Seen): string {
  return (
    `without complete rules for at most ${withoutRulesMs.toFixed(0)} ms; ` +
    `${admitted} of ${knocks} blocked connections got through, ` +
    `and the last answer came at most ${admittedMs.toFixed(0)} ms after a flush`
  );
}

/** Opens connections one after another, because each one changes this process's namespace. */
async function openConnections(address: string): Promise<readonly Connection[]> {
  const connections: Connection[] = [];
  for (let made = 0; made < connectionCount; made += 1) {
    const connection = await Connection.open(address, 80, "echo");
    await connection.name();
    connections.push(connection);
  }
  return connections;
}

let checks = 0;

async function countBroken(connections: readonly Connection[]): Promise<number> {
  // Each check needs its own text, because the answer to an earlier one is still in the connection's text.
  checks += 1;
  const pings = await Promise.allSettled(connections.map((one) => one.ping(`check-${checks}`)));
  return pings.filter(({ status }) => status === "rejected").length;
}

/** Log lines about rule and set drift. All of them name the program if a notification triggered the check. */
function assertNamed(): void {
  const lines = node.program.output
    .split("\n")
    .filter((line) => /changed by a third party" kind="(?:set|entry|chain|rule|jump)"/.test(line));
  assert.ok(lines.length > 0, node.program.output);
  for (const line of lines) assert.match(line, / changedBy="nft \(PID \d+\)"/);
}

describe("nft flush ruleset", () => {
  // The second flush comes while repairs still wait for the second after the first one to pass.
  it("twice a second: rules are restored, and neither idle nor busy masqueraded connections break", async (test) => {
    await node.start(flags);
    const connections = await openConnections(clusterIp);
    const talking = await openConnections(clusterIp);
    const seen = await flushAndLook(countOf({ short: 10, long: 60 }), 500, talking);
    test.diagnostic(textOf(seen));
    assert.deepEqual([await countBroken(connections), await countBroken(talking)], [0, 0]);
    assertNamed();
    assert.doesNotMatch(node.program.output, /backOff="(?!1s")/);
    for (const connection of talking) connection.reset();
    const { out } = kubeIpvs("status", "-o", "json");
    const { lastDrift } = parseJson(out) as { lastDrift?: { changedBy?: string } };
    assert.match(lastDrift?.changedBy ?? "", /^nft \(PID \d+\)$/);
    const { items } = parseJson(kubeIpvs("history", "-o", "json").out) as Answers["History"];
    const last = items.findLast(({ event }) => event === "drift");
    assert.equal(last?.changedBy, lastDrift?.changedBy);
    for (const connection of connections) connection.reset();
  });

  it("once a second: addresses with source ranges are withdrawn, and are served again a minute after the last flush", async () => {
    await node.start(flags);
    const isServed = (): boolean => shell("ipvsadm -Sn").includes(`${open}:80`);
    for (let time = 0; time < 20 && isServed(); time += 1) await flushAndLook(1, 1_000);
    assert.equal(isServed(), false, node.program.output);
    await until(
      async () => isServed(),
      2 * noticedMs,
      async () => node.program.output,
    );
    await until(
      async () => (await askName(open, 80)) === pod.name,
      noticedMs,
      async () => "",
    );
  });

  it("once a minute: rules are restored at once, and no idle connection breaks", async (test) => {
    await node.start(flags);
    const connections = [...(await openConnections(clusterIp)), ...(await openConnections(open))];
    const flushes = Number(process.env["TEST_FLUSHES"] ?? countOf({ short: 4, long: 12 }));
    const intervalMs = countOf({ short: 2_000, long: 60_000 });
    for (let flush = 1; flush <= flushes; flush += 1) {
      const seen = await flushAndLook(1, intervalMs);
      test.diagnostic(textOf(seen));
      // IPVS forgets connections that are idle for longer (`ipvsadm --set`, 15 minutes).
      assert.equal(await countBroken(connections), 0, `broken by flush ${flush}`);
    }
    assertNamed();
    assert.doesNotMatch(node.program.output, /backOff="(?!1s")/);
    for (const connection of connections) connection.reset();
  });

  it("while kube-ipvs is stopped: breaks only masqueraded connections that send before the next start", async () => {
    await node.start(flags);
    const idle = await openConnections(clusterIp);
    const talking = await openConnections(clusterIp);
    const isBroken = (): readonly boolean[] => talking.map(({ ending }) => ending !== undefined);
    const talk = async (): Promise<void> => {
      for (let tick = 0; tick < 10; tick += 1) {
        for (const connection of talking) connection.write("ping\n");
        await pause(tickMs);
      }
    };
    await node.stop();
    await talk();
    // The rules remain, so the kernel tracks connections without the second table.
    assert.ok(!isBroken().includes(true));
    shell("nft flush ruleset");
    await talk();
    assert.ok(!isBroken().includes(false));
    await node.start(flags);
    assert.equal(await countBroken(idle), 0);
    for (const connection of idle) connection.reset();
  });
});

describe("a third-party table named kube-ipvs", () => {
  it("is used, and its other chains and sets remain", async () => {
    shell(
      "nft add table ip kube-ipvs; nft add chain ip kube-ipvs mine; nft add set ip kube-ipvs mine '{ type ipv4_addr; }'",
    );
    await node.start(flags);
    assert.equal(await askName(clusterIp, 80), pod.name);
    assert.match(
      shell("nft -s list table ip kube-ipvs"),
      /set mine \{[\s\S]*chain mine \{[\s\S]*nat-KUBE-SERVICES/,
    );
    assert.doesNotMatch(node.program.output, /rejected a change/);
  });

  it("if a set is full: the kernel's error is reported, and the entries are written when the set is gone", async () => {
    const size = "type ipv4_addr . inet_proto . inet_service; size 1;";
    shell(`nft add table ip kube-ipvs; nft add set ip kube-ipvs KUBE-CLUSTER-IP '{ ${size} }'`);
    await node.start(flags);
    await node.program.prints(/rejected a change.*KUBE-CLUSTER-IP.*ENFILE/);
    shell("nft flush ruleset");
    await until(
      async () => (await kernel.ipSets.listEntries(setFor("clusterIp", "IPv4"))).length === 3,
      2 * noticedMs,
      async () => node.program.output,
    );
  });

  it("is removed by --cleanup even if a third-party rule in it refers to a set", async () => {
    await node.start(flags);
    await node.stop("SIGTERM");
    shell(
      "nft add chain ip kube-ipvs mine; nft add rule ip kube-ipvs mine ip daddr @KUBE-IPVS-IPS drop",
    );
    const { out, code } = kubeIpvs("--cleanup");
    assert.match(out, /nftables tables: 2\n +- ip kube-ipvs\n +- ip6 kube-ipvs\n/);
    assert.equal(code, 0, out);
    assert.doesNotMatch(shell("nft list tables"), /kube-ipvs/);
  });
});

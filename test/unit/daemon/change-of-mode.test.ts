/** Tests mode changes on the fake kernel: which of the old mode's objects are removed, and when. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, beforeEach, describe, it } from "node:test";
import { parseIpAddress } from "../../../src/base/ip.ts";
import { noEarlierRuns } from "../../../src/daemon/leftovers/remove-leftovers.ts";
import { type ModeRecord, modeRecordIn } from "../../../src/daemon/process/mode-record.ts";
import { openState } from "../../../src/daemon/process/state-file.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../../src/daemon/start.ts";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import type { Flow } from "../../../src/state/flow.ts";
import { fatesOf } from "../../support/exposure/judge.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { runCommand } from "../../support/fake-kernel/operator-commands.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { FakeNode } from "../../support/fake-node.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { endpoint, endpointSlice, service, servicePort } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { load } from "../config/loading.ts";

const address = parseIpAddress("10.96.0.10") ?? assert.fail();
const podAddress = parseIpAddress("10.244.1.10") ?? assert.fail();
const pod = { address: podAddress, port: 8080 } as const;
const tcp = { protocol: "TCP", address, port: 80 } as const;
const udp = { protocol: "UDP", address, port: 80 } as const;

function objects(): readonly NamedObject[] {
  const ports = [
    { name: "http", protocol: "TCP", port: 80, targetPort: 8080 },
    { name: "quic", protocol: "UDP", port: 80, targetPort: 8080 },
  ];
  const slicePorts = [
    { name: "http", protocol: "TCP", port: 8080 },
    { name: "quic", protocol: "UDP", port: 8080 },
  ];
  const slice = endpointSlice({ endpoints: [endpoint("10.244.1.10")], ports: slicePorts });
  return [service({ ports }), slice] as unknown as readonly NamedObject[];
}

describe("a change of mode", () => {
  let kernel: FakeKernel;
  let clock: FakeClock;
  let daemon: Daemon;
  let log: RecordingLogger;

  async function start(
    mode: string,
    flags: Readonly<Record<string, string>> = {},
    modeRecord?: ModeRecord,
  ): Promise<void> {
    const { config } = load({ "proxy-mode": mode, ...flags });
    log = new RecordingLogger();
    const source = new MemorySource();
    source.apply(...objects());
    const health = new ProxyHealth(clock, 60_000);
    const parts = { config, kernel, source, clock, metrics: silentMetrics, health, log };
    daemon = await startDaemon(modeRecord === undefined ? parts : { ...parts, modeRecord });
    await clock.advance(2_000);
    await daemon.settled();
    await clock.advance(100);
  }

  beforeEach(async () => {
    kernel = new FakeKernel();
    clock = new FakeClock();
    await start("ipvs");
    await daemon.stop();
    assert.equal(kernel.ipvs.peek().length, 2);
  });

  afterEach(() => daemon.stop());

  function events(): readonly string[] {
    return log.lines
      .map(({ event }) => event)
      .filter((event) => event.includes("leftovers of IPVS mode"));
  }

  it("to ipvs retries a failed removal of iptables rules, and forgets the old mode only after it succeeds", async () => {
    await start("iptables");
    await daemon.stop();
    const leftovers = new Map([["IPv4", ["nat KUBE-SVC-A"]] as const]);
    kernel.iptables.choice = { ...kernel.iptables.choice, leftovers };
    kernel.iptables.rejects = (_family, change) =>
      change.kind === "chain-remove" && change.chainName === "KUBE-NODEPORTS";
    const tidied: string[] = [];
    const modeRecord = {
      ...{ ...noEarlierRuns, earlier: new Set(["iptables"]) },
      begin() {},
      tidied: (mode: string) => void tidied.push(mode),
    } as unknown as ModeRecord;
    await start("ipvs", {}, modeRecord);
    assert.match(iptablesText(kernel, "IPv4"), /KUBE-NODEPORTS/);
    assert.deepEqual(tidied, []);
    kernel.iptables.rejects = () => false;
    await clock.advance(200_000);
    assert.doesNotMatch(iptablesText(kernel, "IPv4"), /KUBE-(?:NODEPORTS|SVC|SEP)/);
    assert.deepEqual(tidied, ["ipvs"]);
  });

  it("to iptables immediately removes objects that no connection needs", async () => {
    await start("iptables");
    assert.deepEqual([kernel.ipvs.peek(), kernel.ipSets.peek()], [[], []]);
    assert.equal(await kernel.link.find(), undefined);
    assert.doesNotMatch(iptablesText(kernel, "IPv4"), /KUBE-IPVS/);
    assert.deepEqual(events(), ["Removed leftovers of IPVS mode"]);
  });

  /** Makes iptables-restore reject every removal of an IPVS mode chain. Returns a function that stops this. */
  function rejectRemoval(times?: number): () => void {
    const isRemoval = ({ subject }: { readonly subject: string }): boolean =>
      subject.includes("chain-remove filter KUBE-IPVS-FILTER");
    return kernel.operations.failWhere(isRemoval, new Error("rejected"), times);
  }

  it("to iptables is not recorded as done, and is retried, if iptables-restore rejects the removal", async () => {
    for (const earlier of [new Set(["ipvs"]), new Set<string>()]) {
      const tidied: string[] = [];
      const modeRecord = {
        ...{ ...noEarlierRuns, earlier, begin() {} },
        tidied: (mode: string) => void tidied.push(mode),
      } as unknown as ModeRecord;
      const mend = rejectRemoval();
      await start("iptables", {}, modeRecord);
      assert.match(iptablesText(kernel, "IPv4"), /KUBE-IPVS-FILTER/);
      assert.equal(await kernel.link.find(), undefined);
      mend();
      await clock.advance(200_000);
      assert.doesNotMatch(iptablesText(kernel, "IPv4"), /KUBE-IPVS/);
      assert.deepEqual([kernel.ipSets.peek(), tidied], [[], ["iptables"]]);
      await daemon.stop();
      await start("ipvs");
      await daemon.stop();
    }
  });

  it("to iptables is retried by the next start if iptables-restore rejected the removal", async () => {
    const mend = rejectRemoval();
    await start("iptables");
    await daemon.stop();
    mend();
    const runs = { ...noEarlierRuns, earlier: new Set(["ipvs"]) };
    const modeRecord = { ...runs, begin() {}, tidied() {} };
    await start("iptables", {}, modeRecord as unknown as ModeRecord);
    assert.doesNotMatch(iptablesText(kernel, "IPv4"), /KUBE-IPVS/);
    assert.deepEqual(kernel.ipSets.peek(), []);
  });

  it("keeps everything until the rules of the new mode are accepted", async () => {
    kernel.iptables.rejects = () => true;
    await start("iptables");
    await clock.advance(120_000);
    assert.equal(kernel.ipvs.peek().length, 2);
    kernel.iptables.rejects = () => false;
    await clock.advance(600_000);
    assert.equal(kernel.ipvs.peek().length, 0);
  });

  it("keeps the other writer's rules until the new ones are accepted", async () => {
    kernel = new FakeKernel();
    kernel.useRules("nftables");
    await start("ipvs", { "kube-ipvs-rules": "nftables" });
    await daemon.stop();
    kernel.useRules("iptables");
    const kept = kernel.unusedNames();
    kernel.iptables.rejects = () => true;
    await start("ipvs");
    await clock.advance(120_000);
    assert.deepEqual(kernel.unusedNames(), kept);
    kernel.iptables.rejects = () => false;
    await clock.advance(600_000);
    assert.deepEqual(kernel.unusedNames(), []);
  });

  it("keeps everything until the last connection has ended", async () => {
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    await start("iptables");
    assert.equal(kernel.ipvs.peek().length, 2);
    assert.match(iptablesText(kernel, "IPv4"), /KUBE-IPVS-FILTER/);
    await clock.advance(60_000);
    assert.equal(kernel.ipvs.peek().length, 2);
    kernel.ipvs.setConnections(tcp, pod, { inactive: 1 });
    await clock.advance(2_000);
    assert.equal(kernel.ipvs.peek().length, 0);
    assert.equal(await kernel.link.find(), undefined);
  });

  it("sends no new connection through a kept virtual server, even after another change", async () => {
    const weights = (): readonly number[] =>
      kernel.ipvs.peek().flatMap(({ realServers }) => realServers.map(({ weight }) => weight));
    const before = weights();
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    await start("iptables");
    assert.deepEqual(weights(), [0, 0]);
    await daemon.stop();
    await start("ipvs");
    assert.deepEqual(weights(), before);
  });

  it("keeps the rules and sets in nf_tables until the virtual servers that they restrict are gone", async () => {
    kernel = new FakeKernel();
    kernel.useRules("nftables");
    await start("ipvs", { "kube-ipvs-rules": "nftables" });
    await daemon.stop();
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    kernel.useRules("iptables");
    const kept = kernel.unusedNames();
    await start("iptables");
    assert.deepEqual([kernel.ipvs.peek().length, kernel.unusedNames()], [2, kept]);
    kernel.ipvs.setConnections(tcp, pod, {});
    await clock.advance(2_000);
    assert.deepEqual([kernel.ipvs.peek(), kernel.unusedNames()], [[], []]);
  });

  it("keeps everything if the virtual servers cannot be read", async () => {
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    const isList = ({ action }: { readonly action: string }): boolean =>
      action === "list-virtual-servers";
    kernel.operations.failWhere(isList, new Error("EBUSY"), 1);
    await start("iptables");
    assert.equal(kernel.ipvs.peek().length, 2);
    kernel.ipvs.setConnections(tcp, pod, {});
    await clock.advance(61_000);
    assert.equal(kernel.ipvs.peek().length, 0);
  });

  it("ends connections at the drain deadline", async () => {
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    await start("iptables", { "kube-ipvs-tcp-drain-deadline": "10m" });
    await clock.advance(590_000);
    assert.equal(kernel.ipvs.peek().length, 2);
    await clock.advance(12_000);
    assert.equal(kernel.ipvs.peek().length, 0);
  });

  it("redirects active UDP clients at the end of the UDP drain deadline", async () => {
    const flow: Flow = {
      protocol: "UDP",
      source: podAddress,
      sourcePort: 4000,
      destination: address,
      destinationPort: 80,
      replySource: podAddress,
      replySourcePort: 8080,
    };
    kernel.conntrack.flows = [flow, { ...flow, destinationPort: 81 }];
    kernel.ipvs.setConnections(udp, pod, { inactive: 1 });
    await start("iptables", { "kube-ipvs-udp-drain-deadline": "1m" });
    assert.equal(kernel.ipvs.peek().length, 2);
    await clock.advance(62_000);
    assert.equal(kernel.ipvs.peek().length, 0);
    assert.deepEqual(kernel.conntrack.flows, [{ ...flow, destinationPort: 81 }]);
  });

  it("is finished by the next start if a stop interrupts it", async () => {
    kernel.ipvs.setConnections(tcp, pod, { active: 1 });
    await start("iptables");
    await daemon.stop();
    await clock.advance(60_000);
    assert.equal(kernel.ipvs.peek().length, 2);
    kernel.ipvs.setConnections(tcp, pod, {});
    await start("iptables");
    assert.equal(kernel.ipvs.peek().length, 0);
  });

  it("removes nothing if another proxy may be running, or in observe-only mode", async () => {
    const tidied: string[] = [];
    const modeRecord = {
      ...{ ...noEarlierRuns, earlier: new Set(["ipvs"]), begin() {} },
      tidied: (mode: string) => void tidied.push(mode),
    } as unknown as ModeRecord;
    for (const flag of ["kube-ipvs-ignore-running-kube-proxy", "kube-ipvs-observe-only"]) {
      await start("iptables", { [flag]: "true" }, modeRecord);
      assert.deepEqual([kernel.ipvs.peek().length, tidied], [2, []]);
      await daemon.stop();
    }
  });
});

for (const [from, to] of [
  ["nftables", "iptables"],
  ["iptables", "nftables"],
] as const) {
  it(`a new port is served after a move from ${from} to ${to} beside another proxy`, async () => {
    const flags = { "kube-ipvs-ignore-running-kube-proxy": "true" };
    const node = new FakeNode({ ...flags, "kube-ipvs-rules": from });
    const slice = endpointSlice({ endpoints: [endpoint("10.244.1.10")] });
    node.source.apply(...([service(), slice] as unknown as readonly NamedObject[]));
    await node.start();
    await node.settle();
    await node.stop();
    await node.reconfigure({ ...flags, "kube-ipvs-rules": to });
    await node.start();
    await node.settle();
    await node.wait(2_000);
    const ports = [servicePort({ port: 81 })];
    node.source.apply(service({ ports }) as unknown as NamedObject);
    await node.settle();
    const packet: Packet = {
      ...({
        family: "IPv4",
        protocol: "TCP",
        port: 81,
        isFromNode: false,
        inLink: "eth0",
      } as const),
      ...{ source: podAddress, destination: address, isBridged: false },
    };
    assert.deepEqual(fatesOf(node.kernel, [packet]), ["endpoint"]);
    await node.stop();
  });
}

it("a virtual server that a third party creates after a change of mode stays foreign when IPVS mode returns", async () => {
  const node = new FakeNode({});
  node.source.apply(...objectsWithNodePort());
  await node.start();
  const change = async (mode: string): Promise<void> => {
    await node.settle();
    await node.stop();
    await node.reconfigure({ "proxy-mode": mode });
    await node.start();
    await node.settle();
    await node.wait(2_000);
  };
  await change("iptables");
  assert.equal(node.kernel.ipvs.peek().length, 0);
  assert.ok(runCommand(node.kernel, "ipvsadm -A -t 192.168.10.11:30080 -s wlc"));
  assert.ok(runCommand(node.kernel, "ipvsadm -a -t 192.168.10.11:30080 -r 10.250.1.1:80 -g -w 5"));
  await change("ipvs");
  assert.match((await node.state()).ipvs ?? "", /^-A -t 192\.168\.10\.11:30080 -s wlc$/m);
  await node.stop();
});

it("connections through a load balancer with source ranges continue after a change to iptables mode", async () => {
  const node = new FakeNode({});
  const slice = endpointSlice({ endpoints: [endpoint("10.244.1.10")] });
  const spec = { loadBalancerSourceRanges: ["192.0.2.0/24"] };
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.5", ipMode: "VIP" }] } };
  const limited = service({ type: "LoadBalancer", spec, status });
  node.source.apply(...([limited, slice] as unknown as readonly NamedObject[]));
  await node.start();
  await node.settle();
  node.connect(1);
  await node.stop();
  await node.reconfigure({ "proxy-mode": "iptables" });
  await node.start();
  await node.settle();
  await node.wait(2_000);
  const { ipvs, iptables } = await node.state();
  assert.match(ipvs ?? "", /-A -t 203\.0\.113\.5:80/);
  // In this mode, the chain drops all packets to the load balancer that are not in state NEW, too.
  assert.match(iptables ?? "", /-A KUBE-PROXY-FIREWALL -d 203\.0\.113\.5\/32 .*-j DROP/);
  const jumps = iptables?.match(/^-A (?:INPUT|FORWARD) .*-j KUBE-PROXY-FIREWALL$/gm);
  assert.deepEqual(
    jumps?.filter((jump) => !jump.includes("--ctstate NEW")),
    [],
  );
  await node.stop();
});

function objectsWithNodePort(): readonly NamedObject[] {
  const ports = [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080, nodePort: 30_080 }];
  const slice = endpointSlice({ endpoints: [endpoint("10.244.1.10")] });
  return [service({ type: "NodePort", ports }), slice] as unknown as readonly NamedObject[];
}

describe("the record of modes", () => {
  const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-modes-"));
  const path = join(folder, "state.json");
  const bootClock = { bootId: "boot-1", uptimeMs: () => 1_000 };
  const open = () => openState(path, { log: new RecordingLogger(), bootClock });

  it("names the modes that ran until one of them cleans up the node, even after kills", async () => {
    assert.deepEqual([...modeRecordIn(open()).earlier], []);
    for (const mode of ["iptables", "ipvs"] as const) {
      await modeRecordIn(open()).begin(mode);
    }
    assert.deepEqual([...modeRecordIn(open()).earlier].sort(), ["iptables", "ipvs"]);
    const state = open();
    modeRecordIn(state).tidied("ipvs");
    await state.idle();
    assert.deepEqual([...modeRecordIn(open()).earlier], ["ipvs"]);
  });

  it("contains the marks of port ranges until a run with other marks has removed them", async () => {
    const marks = [0x3fff0000, 0x0fff8000];
    for (const portRangeMarks of marks)
      await modeRecordIn(open(), { portRangeMarks }).begin("ipvs");
    assert.deepEqual(modeRecordIn(open()).earlierMarks, marks);
    const [state, portRangeMarks] = [open(), 0x0fff8000];
    modeRecordIn(state, { portRangeMarks }).tidied("ipvs");
    await state.idle();
    assert.deepEqual(modeRecordIn(open()).earlierMarks, [portRangeMarks]);
    await modeRecordIn(open()).begin("ipvs");
    assert.deepEqual(modeRecordIn(open()).earlierMarks, [portRangeMarks]);
    const without = open();
    modeRecordIn(without).tidied("ipvs");
    await without.idle();
    assert.deepEqual(modeRecordIn(open()).earlierMarks, []);
  });

  after(() => rmSync(folder, { recursive: true }));
});

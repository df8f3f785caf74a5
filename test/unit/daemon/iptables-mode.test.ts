/** Tests iptables mode with the real composition root, planner and reconciler on the fake kernel. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { silentLogger } from "../../../src/base/log.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { answerTo } from "../../../src/daemon/operator/routes.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { type Daemon, startDaemon } from "../../../src/daemon/start.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import type { Chain } from "../../../src/state/rule.ts";
import { configurationText } from "../../golden/configuration.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { iptablesText } from "../../support/fake-kernel/state-text.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";

function service(name: string, clusterIP: string): NamedObject {
  const ports = [{ name: "http", port: 80, protocol: "TCP" }];
  const spec = { type: "ClusterIP", clusterIP, clusterIPs: [clusterIP], ports };
  return { kind: "Service", metadata: { name, namespace: "default" }, spec } as NamedObject;
}

function slice(service: string, addresses: readonly string[]): NamedObject {
  const labels = { "kubernetes.io/service-name": service };
  return {
    kind: "EndpointSlice",
    metadata: { name: `${service}-1`, namespace: "default", labels },
    addressType: "IPv4",
    endpoints: addresses.map((address) => ({ addresses: [address] })),
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
  } as NamedObject;
}

function iptablesComment(rules: Chain["rules"]): string {
  return rules
    .flatMap(({ matches }) => matches)
    .map((match) => (match.kind === "comment" ? match.text : ""))
    .join(" ");
}

describe("iptables mode", () => {
  let kernel: FakeKernel;
  let source: MemorySource;
  let clock: FakeClock;
  let daemon: Daemon;
  let reports: SyncReport[];

  async function start(fields: object = {}): Promise<void> {
    const { config } = loadConfig(new Map([["config", ["file.yaml"]]]), {
      hostname: () => "node-1",
      readFile: () => configurationText({ mode: "iptables", ...fields }),
    });
    daemon = await startDaemon({
      config,
      kernel,
      source,
      clock,
      metrics: silentMetrics,
      health: new ProxyHealth(clock, 60_000),
      log: silentLogger,
      onReport: (report) => reports.push(report),
    });
    await settle();
  }

  async function settle(): Promise<void> {
    await clock.advance(2_000);
    await daemon.settled();
  }

  /** Returns the kinds and chains of the last sync's changes. */
  function lastChanges(): readonly string[] {
    return (reports.at(-1)?.plan.changes ?? [])
      .map((change) => {
        if (change.kind === "chain-write")
          return `write ${change.chain.table} ${change.chain.name}`;
        if (change.kind === "chain-remove") return `remove ${change.table} ${change.chainName}`;
        return change.kind;
      })
      .sort();
  }

  beforeEach(async () => {
    kernel = new FakeKernel();
    source = new MemorySource();
    clock = new FakeClock();
    reports = [];
    source.apply(
      service("a", "10.96.0.10"),
      slice("a", ["10.244.1.10", "10.244.2.11"]),
      service("b", "10.96.0.11"),
      slice("b", ["10.244.1.12"]),
    );
    await start();
  });

  afterEach(() => daemon.stop());

  it("has no virtual server, set or link, and reports its mode", () => {
    assert.deepEqual(kernel.ipvs.peek(), []);
    assert.deepEqual(kernel.ipSets.peek(), []);
    assert.equal(daemon.view.mode, "iptables");
    assert.match(
      iptablesText(kernel, "IPv4"),
      /KUBE-SERVICES -d 10\.96\.0\.10\/32 .* -j KUBE-SVC-/,
    );
  });

  it("lists Services with their endpoints, and reports that it has no drains", async () => {
    const notReady = { addresses: ["10.244.2.11"], conditions: { ready: false } };
    const ready = { addresses: ["10.244.1.10"] };
    source.apply({ ...slice("a", []), endpoints: [ready, notReady] } as NamedObject);
    await settle();
    const parts = {
      clock,
      configuration: () => ({}),
      status: () => assert.fail(),
      view: () => daemon.view,
    };
    const answer = await answerTo("/v1/services?namespace=default&name=a&endpoints=true", parts);
    assert.ok(answer.kind === "list");
    const rows: unknown[] = [];
    for await (const row of answer.rows) rows.push(row);
    const from = { ready: true, serving: true, terminating: false, local: false };
    assert.deepEqual(rows, [
      {
        ...{ namespace: "default", name: "a", portName: "http", type: "ClusterIP" },
        ...{ frontend: "cluster-ip", protocol: "TCP", address: "10.96.0.10", port: 80 },
        ...{ scheduler: "random", affinitySeconds: 0, trafficPolicy: "Cluster" },
        realServers: { planned: 1, programmed: 1, draining: 0 },
        endpoints: [
          { address: "10.244.1.10", port: 8080, ...from },
          {
            ...{ address: "10.244.2.11", port: 8080, ...from, ready: false },
            reason: "not-ready",
          },
        ],
      },
    ]);
    const refusal = await answerTo("/v1/drains", parts);
    assert.ok(refusal.kind === "object" && refusal.status === 501);
    assert.match(JSON.stringify(refusal.object), /iptables mode has no drains/);
  });

  it("writes two chains for one new endpoint, and nothing without a change", async () => {
    source.apply(slice("a", ["10.244.1.10", "10.244.2.11", "10.244.2.12"]));
    await settle();
    assert.deepEqual(
      lastChanges().map((one) => one.replace(/-[A-Z2-7]{16}$/, "")),
      ["write nat KUBE-SEP", "write nat KUBE-SVC"],
    );
    source.apply(slice("a", ["10.244.1.10", "10.244.2.11", "10.244.2.12"]));
    await settle();
    assert.deepEqual(lastChanges(), []);
  });

  it("writes nothing if the rules are already correct when it starts", async () => {
    const before = iptablesText(kernel, "IPv4");
    await daemon.stop();
    await start();
    assert.deepEqual(lastChanges(), []);
    assert.equal(iptablesText(kernel, "IPv4"), before);
  });

  it("removes chains of Services that were deleted while it was stopped", async () => {
    await daemon.stop();
    source.delete(service("b", "10.96.0.11"), slice("b", []));
    await start();
    assert.deepEqual(
      lastChanges().map((one) => one.replace(/-[A-Z2-7]{16}$/, "")),
      ["remove nat KUBE-SEP", "remove nat KUBE-SVC", "write nat KUBE-SERVICES"],
    );
  });

  it("restores flushed tables, including the canary", async () => {
    const before = iptablesText(kernel, "IPv4");
    kernel.iptables.table("IPv4", "nat").flush();
    kernel.iptables.table("IPv4", "mangle").flush();
    await clock.advance(120_000);
    await settle();
    assert.equal(iptablesText(kernel, "IPv4"), before);
    const mangle = kernel.iptables.table("IPv4", "mangle").observe();
    assert.ok(mangle.some(({ name }) => name === "KUBE-PROXY-CANARY"));
  });

  it("keeps third-party rules", async () => {
    kernel.iptables.table("IPv4", "nat").append("CNI-HOSTPORT", "-p tcp -j ACCEPT");
    kernel.iptables
      .table("IPv4", "filter")
      .append("KUBE-FIREWALL", "-m mark --mark 0x8000/0x8000 -j DROP");
    await clock.advance(120_000);
    await settle();
    const text = iptablesText(kernel, "IPv4");
    assert.match(text, /-A CNI-HOSTPORT -p tcp -j ACCEPT/);
    assert.match(text, /-A KUBE-FIREWALL -m mark --mark 0x8000\/0x8000 -j DROP/);
    assert.match(text, /block incoming localnet connections/);
  });

  it("serves other Services while the kernel rejects a chain, and retries the chain", async () => {
    kernel.iptables.rejects = (_family, change) =>
      change.kind === "chain-write" && iptablesComment(change.chain.rules).includes("default/c");
    source.apply(service("c", "10.96.0.12"), slice("c", ["10.244.1.13"]));
    await settle();
    source.apply(slice("b", ["10.244.1.14"]));
    await settle();
    const text = (): string => iptablesText(kernel, "IPv4");
    assert.match(text(), /DNAT --to-destination 10\.244\.1\.14:8080/);
    assert.doesNotMatch(text(), /default\/c/);
    assert.equal(reports.at(-1)?.failures.length, 0);
    kernel.iptables.rejects = () => false;
    await clock.advance(30_000);
    await daemon.settled();
    assert.match(text(), /-d 10\.96\.0\.12\/32 .* -j KUBE-SVC-/);
    assert.match(text(), /DNAT --to-destination 10\.244\.1\.13:8080/);
  });

  it("compares everything after a failed restore, and reaches the desired state", async () => {
    kernel.operations.failWhere(({ facility }) => facility === "iptables", new Error("no"), 1);
    source.apply(slice("a", ["10.244.1.10"]));
    await clock.advance(1_500);
    assert.ok(reports.some(({ failures }) => failures.length > 0));
    await clock.advance(60_000);
    await settle();
    assert.equal(reports.at(-1)?.failures.length, 0);
    assert.doesNotMatch(iptablesText(kernel, "IPv4"), /10\.244\.2\.11/);
  });

  it("routes packets to loopback after they are blocked from outside", async () => {
    assert.equal(kernel.sysctl.read("net/ipv4/conf/all/route_localnet"), "1");
  });

  it("does not route packets to loopback while the kernel rejects the rule that blocks them", async () => {
    await daemon.stop();
    kernel = new FakeKernel();
    kernel.iptables.rejects = (_family, change) =>
      change.kind === "jump-insert" && change.jump.from === "KUBE-FIREWALL";
    await start();
    const setting = (): string | undefined =>
      kernel.sysctl.read("net/ipv4/conf/all/route_localnet");
    assert.notEqual(setting(), "1");
    kernel.iptables.rejects = () => false;
    await clock.advance(30_000);
    await daemon.settled();
    assert.equal(setting(), "1");
  });

  it("does not change the setting if loopback serves no node ports", async () => {
    await daemon.stop();
    kernel = new FakeKernel();
    await start({ iptables: { localhostNodePorts: false } });
    assert.notEqual(kernel.sysctl.read("net/ipv4/conf/all/route_localnet"), "1");
    assert.match(iptablesText(kernel, "IPv4"), /KUBE-SERVICES ! -d 127\.0\.0\.0\/8 /);
  });
});

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { setFor } from "../../../src/plan/sets.ts";
import type { SyncReport } from "../../../src/reconcile/report.ts";
import type { VirtualServer } from "../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { cidr, endpointRecord, ip, portRecord, serviceRecord } from "../../support/records.ts";

function foreignAt(address: string, overrides: Partial<VirtualServer> = {}): VirtualServer {
  return {
    protocol: "TCP",
    address: ip(address),
    port: 80,
    scheduler: "wlc",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
    ...overrides,
  };
}

const foreign = foreignAt("203.0.113.5");
const foreignText = "-A -t 203.0.113.5:80 -s wlc";
const there = endpointRecord("10.244.2.11");
const claiming = serviceRecord({ externalIps: [foreign.address] });
const nodePort = serviceRecord({
  type: "NodePort",
  ports: [portRecord({ nodePort: 30_080 })],
});

async function make(kernel: FakeKernel, virtualServer: VirtualServer): Promise<void> {
  await kernel.ipvs.apply([{ kind: "create-virtual-server", virtualServer }]);
}

/** The sets emptied, as `ipset flush` does it. */
function flush({ ipSets }: FakeKernel): void {
  for (const { set } of ipSets.peek()) ipSets.put(set);
}

describe("a Service that claims the virtual server of others", () => {
  let kernel: FakeKernel;
  let bench: Bench;
  let report: SyncReport;

  beforeEach(async () => {
    kernel = new FakeKernel();
    await make(kernel, foreign);
    bench = new Bench(kernel);
    bench.put(claiming, [there]);
    report = await bench.sync();
  });

  it("is not served there, and everywhere else", () => {
    assert.deepEqual(report.failures, []);
    assert.match(bench.state(), new RegExp(foreignText));
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("leaves neither address nor entries that would make it ours", () => {
    assert.doesNotMatch(bench.state(), /kube-ipvs0 .*203\.0\.113\.5|add KUBE-.* 203\.0\.113\.5/);
  });

  it("is told", () => {
    assert.deepEqual(report.contestedServers, ["TCP 203.0.113.5:80"]);
    assert.equal(bench.desired.claimantOf("TCP 203.0.113.5:80"), "default/a:http");
  });

  it("is in the same place after a restart, and when it looks again", async () => {
    assert.deepEqual(await bench.writes(true), []);
    const restarted = new Bench(kernel);
    restarted.put(claiming, [there]);
    assert.deepEqual(await restarted.writes(), []);
  });

  it("leaves it alone when it goes", async () => {
    bench.drop(claiming.name);
    await bench.sync();
    assert.match(bench.state(), new RegExp(foreignText));
    assert.doesNotMatch(bench.state(), /10\.96\.0\.10/);
  });

  it("is served when the others have gone", async () => {
    await kernel.ipvs.apply([{ kind: "remove-virtual-server", virtualServer: foreign }]);
    assert.deepEqual((await bench.sync(true)).contestedServers, []);
    const want = new Bench();
    want.put(claiming, [there]);
    await want.sync();
    assert.equal(bench.state(), want.state());
  });

  it("keeps the address where another port of it is served", async () => {
    const other = serviceRecord({
      name: "default/b",
      clusterIps: [ip("10.96.0.11")],
      externalIps: [foreign.address],
      ports: [portRecord({ port: 443 })],
    });
    bench.put(other, [there]);
    await bench.sync();
    assert.match(bench.state(), /203\.0\.113\.5:443 -r 10\.244\.2\.11/);
    assert.match(bench.state(), /kube-ipvs0 .*203\.0\.113\.5/);
    assert.match(bench.state(), new RegExp(foreignText));
    assert.deepEqual(await bench.writes(true), []);
  });
});

it("a virtual server that others made since the last look is not overwritten", async () => {
  const bench = new Bench();
  bench.put(serviceRecord(), [there]);
  await bench.sync();
  await make(bench.kernel, foreign);
  bench.put(claiming, [there]);
  const [failure] = (await bench.sync()).failures;
  assert.equal(failure?.subject, "TCP 203.0.113.5:80");
  assert.match(bench.state(), new RegExp(foreignText));
  assert.doesNotMatch(bench.state(), /203\.0\.113\.5:80 -r/);
  const report = await bench.sync();
  assert.deepEqual(report.failures, []);
  assert.deepEqual(report.contestedServers, ["TCP 203.0.113.5:80"]);
  assert.doesNotMatch(bench.state(), /kube-ipvs0 .*203\.0\.113\.5|add KUBE-.* 203\.0\.113\.5/);
  assert.match(bench.state(), new RegExp(foreignText));
});

it("with `delete`, a Service gets the virtual server that others have", async () => {
  const kernel = new FakeKernel();
  await make(kernel, foreign);
  const ownership = { foreignVirtualServers: "delete", excludeCidrs: [] } as const;
  const bench = new Bench(kernel, { ownership });
  bench.put(claiming, [there]);
  assert.deepEqual((await bench.sync()).contestedServers, []);
  assert.match(bench.state(), /203\.0\.113\.5:80 -r 10\.244\.2\.11:8080/);
});

describe("after somebody flushed the sets", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = new Bench();
    bench.put(nodePort, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    await bench.sync();
    flush(bench.kernel);
  });

  it("our virtual servers are still ours for a running daemon", async () => {
    bench.put(nodePort, [endpointRecord("10.244.2.12")]);
    bench.drop("default/b");
    const report = await bench.sync(true);
    assert.deepEqual([report.contestedServers, report.foreignServers], [[], []]);
    const want = new Bench();
    want.put(nodePort, [endpointRecord("10.244.2.12")]);
    await want.sync();
    assert.equal(bench.state(), want.state());
  });

  it("a restarted daemon serves its Services all the same, told by the addresses", async () => {
    const restarted = new Bench(bench.kernel);
    restarted.put(nodePort, [endpointRecord("10.244.2.12")]);
    restarted.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    assert.deepEqual((await restarted.sync()).contestedServers, []);
    assert.match(restarted.state(), /192\.168\.10\.11:30080 -r 10\.244\.2\.12:8080/);
    assert.match(restarted.state(), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
  });

  it("a restarted daemon removes what stands on kube-ipvs0 for nobody, and nothing of others", async () => {
    await make(bench.kernel, foreign);
    const restarted = new Bench(bench.kernel);
    restarted.put(nodePort, [there]);
    assert.deepEqual((await restarted.sync()).foreignServers, ["TCP 203.0.113.5:80"]);
    assert.doesNotMatch(restarted.state(), /10\.96\.0\.11/);
    assert.match(restarted.state(), new RegExp(foreignText));
  });
});

it("after somebody flushed one set, a restarted daemon removes what that named, and no other's port", async () => {
  const kernel = new FakeKernel();
  const bench = new Bench(kernel);
  bench.put(serviceRecord(), [there]);
  bench.put(claiming, [there]);
  await bench.sync();
  await make(kernel, foreignAt("203.0.113.5", { port: 81 }));
  kernel.ipSets.put(setFor("clusterIp", "IPv4"));
  const restarted = new Bench(kernel);
  const report = await restarted.sync();
  // The external IP is still named, with another port.
  assert.deepEqual(report.foreignServers, ["TCP 203.0.113.5:81"]);
  assert.doesNotMatch(restarted.state(), /10\.96\.0\.10/);
});

describe("what nobody wants and is not ours", () => {
  const key = "TCP 203.0.113.5:80";
  const cases: readonly {
    readonly name: string;
    readonly policy: "keep" | "delete";
    readonly excluded: readonly string[];
    readonly stays: boolean;
  }[] = [
    { name: "stays", policy: "keep", excluded: [], stays: true },
    { name: "goes with `delete`", policy: "delete", excluded: [], stays: false },
    {
      name: "stays in an excluded network",
      policy: "delete",
      excluded: ["203.0.113.0/24"],
      stays: true,
    },
    {
      name: "goes outside of excluded networks",
      policy: "delete",
      excluded: ["203.0.112.0/24"],
      stays: false,
    },
  ];
  for (const { name, policy, excluded, stays } of cases) {
    it(name, async () => {
      const kernel = new FakeKernel();
      await make(kernel, foreign);
      const ownership = { foreignVirtualServers: policy, excludeCidrs: excluded.map(cidr) };
      const bench = new Bench(kernel, { ownership });
      bench.put(serviceRecord(), [there]);
      const report = await bench.sync();
      assert.deepEqual(report.foreignServers, stays ? [key] : []);
      assert.equal(bench.state().includes(foreignText), stays);
    });
  }
});

it("what was ours in an excluded network is served again when it is wanted again", async () => {
  const ownership = {
    foreignVirtualServers: "keep",
    excludeCidrs: [cidr("10.96.0.0/24")],
  } as const;
  const bench = new Bench(new FakeKernel(), { ownership });
  bench.put(serviceRecord(), [there]);
  await bench.sync();
  bench.drop("default/a");
  await bench.sync();
  await bench.sync(true);
  bench.put(serviceRecord(), [endpointRecord("10.244.2.12")]);
  const report = await bench.sync(true);
  assert.deepEqual(report.contestedServers, []);
  assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12:8080/);
});

describe("a virtual server whose set entry is refused", () => {
  const isEntry = ({ action }: { readonly action: string }): boolean => action === "add-entry";

  it("is not made, nor bound, before there is one, so that a restart knows it for ours", async () => {
    const kernel = new FakeKernel();
    const bench = new Bench(kernel);
    bench.put(serviceRecord(), [there]);
    const heal = kernel.operations.failWhere(isEntry, errno.EBUSY);
    await bench.sync();
    assert.doesNotMatch(bench.state(), /10\.96\.0\.10:80|inet 10\.96\.0\.10/);
    heal();
    const restarted = new Bench(kernel);
    restarted.put(serviceRecord(), [there]);
    assert.deepEqual((await restarted.sync()).contestedServers, []);
    assert.match(restarted.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("is changed all the same where it is there", async () => {
    const bench = new Bench();
    bench.put(serviceRecord(), [there]);
    await bench.sync();
    bench.kernel.operations.failWhere(isEntry, errno.EBUSY);
    bench.put(serviceRecord({ externalIps: [foreign.address] }), [endpointRecord("10.244.2.12")]);
    await bench.sync();
    assert.match(bench.state(), /10\.96\.0\.10:80 -r 10\.244\.2\.12:8080/);
    assert.doesNotMatch(bench.state(), /203\.0\.113\.5/);
  });
});

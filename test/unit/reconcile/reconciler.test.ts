import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import type { VirtualServer } from "../../../src/state/virtual-server.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { addressesText, ipSetText, ipvsText } from "../../support/fake-kernel/state-text.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import {
  cidr,
  endpointRecord,
  ip,
  localEndpoint,
  portRecord,
  serviceRecord,
} from "../../support/records.ts";

const a = serviceRecord();
const here = localEndpoint("10.244.1.10");
const there = endpointRecord("10.244.2.11");
const foreign: VirtualServer = {
  protocol: "TCP",
  address: ip("10.50.0.1"),
  port: 80,
  scheduler: "wlc",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};

describe("Reconciler", () => {
  let bench: Bench;

  beforeEach(() => {
    bench = new Bench();
  });

  it("makes link, sets, entries and rules before the first virtual server, its address after it", async () => {
    bench.put(a, [here, there]);
    const writes = await bench.writes();
    const at = (part: string): number => writes.findIndex((text) => text.includes(part));
    const order = [
      at("create-link"),
      at("KUBE-LOOP-BACK"),
      at("KUBE-CLUSTER-IP 10.96.0.10"),
      writes.findIndex((text) => text.startsWith("iptables")),
      at("create-virtual-server"),
      at("create-real-server"),
      writes.findIndex((text) => text.startsWith("link") && text.includes("10.96.0.10")),
    ];
    assert.ok(
      order.every((position) => position >= 0),
      writes.join("\n"),
    );
    assert.deepEqual(
      order,
      order.toSorted((left, right) => left - right),
      writes.join("\n"),
    );
  });

  it("writes nothing when it looks at everything again", async () => {
    bench.put(a, [here]);
    await bench.sync();
    assert.deepEqual(await bench.writes(true), []);
  });

  it("writes nothing when it starts on a kernel that is right", async () => {
    bench.put(a, [here]);
    await bench.sync();
    const restarted = new Bench(bench.kernel);
    restarted.put(a, [here]);
    assert.deepEqual(await restarted.writes(), []);
  });

  it("answers one more endpoint with one change", async () => {
    bench.put(a, [there]);
    await bench.sync();
    bench.put(a, [there, endpointRecord("10.244.2.12")]);
    assert.deepEqual(await bench.writes(), [
      "ipvs create-real-server TCP 10.96.0.10:80 -> 10.244.2.12:8080",
    ]);
  });

  it("takes weight, then the idle real server away", async () => {
    bench.put(a, [there, endpointRecord("10.244.2.12")]);
    await bench.sync();
    bench.put(a, [there]);
    assert.deepEqual(await bench.writes(), [
      "ipvs update-real-server TCP 10.96.0.10:80 -> 10.244.2.12:8080",
      "ipvs remove-real-server TCP 10.96.0.10:80 -> 10.244.2.12:8080",
    ]);
    assert.equal(bench.reconciler.drainer.count, 0);
  });

  it("brings new real servers before it lets old ones go", async () => {
    bench.put(a, [there]);
    await bench.sync();
    bench.put(a, [endpointRecord("10.244.2.12")]);
    assert.deepEqual(await bench.writes(), [
      "ipvs create-real-server TCP 10.96.0.10:80 -> 10.244.2.12:8080",
      "ipvs update-real-server TCP 10.96.0.10:80 -> 10.244.2.11:8080",
      "ipvs remove-real-server TCP 10.96.0.10:80 -> 10.244.2.11:8080",
    ]);
  });

  it("removes a Service from the virtual server outwards", async () => {
    bench.put(a, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }));
    await bench.sync();
    bench.drop("default/a");
    assert.deepEqual(await bench.writes(), [
      "ipvs remove-virtual-server TCP 10.96.0.10:80",
      "link remove-address 10.96.0.10",
      "ipset remove-entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
      "ipset remove-entry KUBE-IPVS-IPS 10.96.0.10",
    ]);
  });

  it("goes on after a failed change, reports it, and repairs it in the next sync", async () => {
    bench.kernel.operations.failWhere(
      ({ action, subject }) => action === "create-virtual-server" && subject.includes("10.96.0.10"),
      errno.EPERM,
      1,
    );
    bench.put(a, [there]);
    bench.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    const report = await bench.sync();
    assert.ok(report.failures.some(({ subject }) => subject === "TCP 10.96.0.10:80"));
    assert.match(ipvsText(bench.kernel), /10\.96\.0\.11:80 -r 10\.244\.2\.11:8080/);
    assert.equal(bench.reconciler.needsObservation, true);
    assert.deepEqual((await bench.sync()).failures, []);
    const fresh = new Bench();
    fresh.put(a, [there]);
    fresh.put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }), [there]);
    await fresh.sync();
    assert.equal(bench.state(), fresh.state());
  });

  it("keeps the set entries of a virtual server that could not be removed", async () => {
    bench.put(a);
    await bench.sync();
    bench.kernel.operations.failWhere(
      ({ action }) => action === "remove-virtual-server",
      errno.EBUSY,
      1,
    );
    bench.drop(a.name);
    await bench.sync();
    assert.match(ipSetText(bench.kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
    await bench.sync();
    assert.equal(ipvsText(bench.kernel).trim(), "");
    assert.doesNotMatch(ipSetText(bench.kernel), /add KUBE-CLUSTER-IP/);
  });

  it("looks again when a reply is lost, and ends where it should", async () => {
    bench.put(a, [there]);
    bench.kernel.operations.loseReplyWhere(({ action }) => action === "create-virtual-server");
    const report = await bench.sync();
    assert.equal(report.failures.length, 1);
    assert.deepEqual((await bench.sync()).failures, []);
    const fresh = new Bench();
    fresh.put(a, [there]);
    await fresh.sync();
    assert.equal(bench.state(), fresh.state());
  });

  it("writes nothing while the kernel cannot be read", async () => {
    bench.kernel.operations.failWhere(({ isRead }) => isRead === true, errno.EPERM);
    bench.put(a);
    const report = await bench.sync();
    assert.deepEqual(
      report.failures.map(({ kind }) => kind),
      ["observe"],
    );
    assert.deepEqual(bench.kernel.operations.texts(), []);
  });

  it("leaves virtual servers of others alone", async () => {
    await bench.kernel.ipvs.apply([{ kind: "create-virtual-server", virtualServer: foreign }]);
    bench.put(a);
    await bench.sync();
    assert.match(ipvsText(bench.kernel), /10\.50\.0\.1:80 -s wlc/);
  });

  it("removes them where it is told to, except in excluded networks", async () => {
    for (const excludeCidrs of [[], [cidr("10.50.0.0/16")]]) {
      const strict = new Bench(new FakeKernel(), {
        ownership: { foreignVirtualServers: "delete", excludeCidrs },
      });
      await strict.kernel.ipvs.apply([{ kind: "create-virtual-server", virtualServer: foreign }]);
      await strict.sync();
      assert.equal(/10\.50\.0\.1/.test(ipvsText(strict.kernel)), excludeCidrs.length > 0);
    }
  });

  it("removes what an earlier run left behind, told by the sets", async () => {
    bench.put(a, [there]);
    bench.put(
      serviceRecord({
        name: "default/np",
        clusterIps: [ip("10.96.0.12")],
        type: "NodePort",
        ports: [portRecord({ nodePort: 30080 })],
      }),
    );
    await bench.sync();
    const restarted = new Bench(bench.kernel);
    await restarted.sync();
    assert.equal(ipvsText(bench.kernel).trim(), "");
    assert.doesNotMatch(ipSetText(bench.kernel), /^add/m);
    assert.equal(addressesText(bench.kernel).trim(), "");
  });

  it("ends in the same state when it is killed at any write and started again", async () => {
    const fresh = new Bench();
    fresh.put(a, [there, here]);
    await fresh.sync();
    const writeCount = fresh.kernel.operations.texts().length;
    assert.ok(writeCount > 10);
    for (let write = 1; write <= writeCount; write++) {
      const killed = new Bench();
      killed.kernel.operations.crashAt(write);
      killed.put(a, [there, here]);
      await killed.sync();
      killed.kernel.operations.revive();
      const restarted = new Bench(killed.kernel);
      restarted.put(a, [there, here]);
      assert.deepEqual((await restarted.sync()).failures, [], `killed at write ${write}`);
      assert.equal(restarted.state(), fresh.state(), `killed at write ${write}`);
    }
  });
});

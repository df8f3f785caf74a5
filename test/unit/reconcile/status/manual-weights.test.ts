/**
 * Tests that `ipvsadm -e … -w 0` drains a real server manually. The weight is kept until the plan changes or the
 * program restarts.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { SyncReport } from "../../../../src/reconcile/report.ts";
import type { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../../support/reconcile-bench.ts";
import { endpointRecord, ip, portRecord, serviceRecord } from "../../../support/records.ts";

const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const [one, two] = [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")];

let bench: Bench;
let kernel: FakeKernel;

beforeEach(async () => {
  bench = new Bench();
  ({ kernel } = bench);
  bench.put(serviceRecord(), [one, two]);
  await bench.sync();
});

async function setWeight(address: string, weight: number, forwardingMethod = 0): Promise<void> {
  const realServer = { address: ip(address), port: 8080, weight, forwardingMethod };
  await kernel.ipvs.apply([{ kind: "real-server-update", virtualServer, after: realServer }]);
}

/** The weights in the kernel: `.11=1 .12=0`. */
function weights(): string {
  const [server] = kernel.ipvs.peek();
  return (server?.realServers ?? [])
    .map(({ address, weight }) => `.${address.split(".").at(-1)}=${weight}`)
    .toSorted()
    .join(" ");
}

/** `.11 weight 0, planned 1`. */
function manual({ manualWeights }: SyncReport): readonly string[] {
  return manualWeights.map(
    ({ realServerKey, weight, plannedWeight }) =>
      `${realServerKey} weight ${weight}, planned ${plannedWeight}`,
  );
}

const drained = ["10.244.2.11:8080 weight 0, planned 1"];

/** Runs a verification, then a sync, as the daemon does. */
async function found(): Promise<SyncReport> {
  assert.equal(await bench.verify(), true);
  return bench.sync();
}

describe("a weight that a third party set", () => {
  it("is kept, is not drift, and is reported until it is restored", async () => {
    await setWeight("10.244.2.11", 0);
    const report = await found();
    assert.deepEqual([manual(report), report.drifts], [drained, []]);
    assert.equal(weights(), ".11=0 .12=1");
    assert.deepEqual(await bench.writes(true), []);
    assert.deepEqual(manual(await bench.sync(true)), drained);
    await setWeight("10.244.2.11", 1);
    assert.deepEqual(manual(await found()), []);
  });

  it("can have any value, and a new one replaces it", async () => {
    await setWeight("10.244.2.11", 7);
    await found();
    await setWeight("10.244.2.11", 3);
    assert.deepEqual(manual(await found()), ["10.244.2.11:8080 weight 3, planned 1"]);
    assert.equal(weights(), ".11=3 .12=1");
  });

  it("stays if the Service changes otherwise", async () => {
    await setWeight("10.244.2.11", 0);
    await found();
    bench.put(serviceRecord(), [one, two, endpointRecord("10.244.2.13")]);
    await bench.sync();
    assert.equal(weights(), ".11=0 .12=1 .13=1");
  });

  it("ends with the endpoint, which has the planned weight when it returns", async () => {
    await setWeight("10.244.2.11", 0);
    await found();
    kernel.ipvs.setConnections(
      virtualServer,
      { address: ip("10.244.2.11"), port: 8080 },
      { active: 1 },
    );
    bench.put(serviceRecord(), [two]);
    assert.deepEqual(manual(await bench.sync()), []);
    assert.equal(weights(), ".11=0 .12=1");
    bench.put(serviceRecord(), [one, two]);
    await bench.sync();
    assert.equal(weights(), ".11=1 .12=1");
  });

  it("ends with a restart, as with kube-proxy", async () => {
    await setWeight("10.244.2.11", 0);
    await found();
    const restarted = new Bench(kernel);
    restarted.put(serviceRecord(), [one, two]);
    await restarted.sync();
    assert.equal(weights(), ".11=1 .12=1");
  });

  it("does not prevent the repair of other third-party changes", async () => {
    await setWeight("10.244.2.11", 0);
    const realServer = { address: ip("10.244.2.12"), port: 8080 };
    await kernel.ipvs.apply([{ kind: "real-server-remove", virtualServer, before: realServer }]);
    const { drifts } = await found();
    assert.deepEqual(
      drifts.map(({ kind, before, after }) => [kind, before, after]),
      [["real-server", "weight 1", "absent"]],
    );
    assert.equal(weights(), ".11=0 .12=1");
  });

  it("is repaired if the forwarding method was changed with it", async () => {
    await setWeight("10.244.2.11", 0, 3);
    await found();
    assert.equal(weights(), ".11=1 .12=1");
  });

  it("is repaired with the policy `repair`", async () => {
    bench = new Bench(kernel, { manualWeights: "repair" });
    bench.put(serviceRecord(), [one, two]);
    await bench.sync();
    await setWeight("10.244.2.11", 0);
    const report = await found();
    assert.deepEqual(
      [manual(report), report.drifts.map(({ kind }) => kind), weights()],
      [[], ["weight"], ".11=1 .12=1"],
    );
  });

  it("is not assumed after a write of kube-ipvs whose reply was lost", async () => {
    kernel.ipvs.setConnections(
      virtualServer,
      { address: ip("10.244.2.11"), port: 8080 },
      { active: 1 },
    );
    kernel.operations.loseReplyWhere(({ facility, isRead }) => facility === "ipvs" && !isRead);
    bench.put(serviceRecord(), [two]);
    assert.ok((await bench.sync()).failures.length > 0);
    bench.put(serviceRecord(), [one, two]);
    assert.deepEqual(manual(await bench.sync()), []);
    assert.equal(weights(), ".11=1 .12=1");
  });

  it("of the only real server of a UDP Service does not cause repeated clean-ups of flows", async () => {
    bench = new Bench(undefined, { drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 } });
    ({ kernel } = bench);
    const dns = { ...virtualServer, protocol: "UDP", port: 53 } as const;
    const ports = [portRecord({ name: "dns", protocol: "UDP", port: 53 })];
    bench.put(serviceRecord({ ports }), [one], {
      ports: [{ name: "dns", protocol: "UDP", port: 5353 }],
    });
    await bench.sync();
    const realServer = {
      address: one.address,
      port: 5353,
      weight: 0,
      forwardingMethod: 0,
    };
    await kernel.ipvs.apply([
      { kind: "real-server-update", virtualServer: dns, after: realServer },
    ]);
    assert.equal(manual(await found()).length, 1);
    assert.deepEqual((await bench.sync(true)).conntrackPasses, []);
  });
});

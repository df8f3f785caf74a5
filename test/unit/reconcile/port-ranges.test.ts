import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { rangeMark } from "../../../src/plan/port-ranges.ts";
import { markServerId, toServerKey } from "../../../src/state/virtual-server.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { cidr, endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const portRangeMarks = 0x3fff0000;
const address = ip("203.0.113.10");
const key = toServerKey(`FWM ${rangeMark(address, portRangeMarks)} IPv4`);
const open = serviceRecord({
  type: "LoadBalancer",
  loadBalancerIps: [address],
  annotations: { "kube-ipvs.io/port-range": "10000-20000" },
});
const closed = { ...open, sourceRanges: [cidr("198.51.100.0/24")] };
const endpoints = [endpointRecord("10.244.2.11")];

let bench: Bench;

beforeEach(async () => {
  bench = new Bench(undefined, { portRangeMarks });
  bench.put(open, endpoints);
  await bench.sync();
});

function isServed(): boolean {
  return bench.reconciler.cachedServers.has(key);
}

describe("the virtual server of a port range", () => {
  it("is not written again, neither by the next sync nor after a restart", async () => {
    assert.ok(isServed());
    assert.deepEqual(await bench.writes(true), []);
    const restarted = new Bench(bench.kernel, { portRangeMarks });
    restarted.put(open, endpoints);
    assert.deepEqual(await restarted.writes(), []);
  });

  it("is removed with its Service", async () => {
    bench.drop(open.name);
    await bench.sync();
    assert.equal(isServed(), false);
    assert.equal(bench.state().includes("203.0.113.10"), false);
  });

  it("drains a removed endpoint", async () => {
    bench = new Bench(undefined, {
      portRangeMarks,
      drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 },
    });
    bench.put(open, [...endpoints, endpointRecord("10.244.2.12")]);
    await bench.sync();
    const server = markServerId("IPv4", rangeMark(address, portRangeMarks));
    const leaving = { address: ip("10.244.2.12"), port: 0 };
    bench.kernel.ipvs.setConnections(server, leaving, { inactive: 1 });
    bench.put(open, endpoints);
    await bench.sync();
    assert.equal(bench.reconciler.drainer.drains.of(key).length, 1);
  });

  it("is withdrawn while the kernel rejects the rules of its source ranges", async () => {
    const { iptables } = bench.kernel;
    iptables.rejects = (_, change) =>
      change.kind === "chain-write" && change.chain.table === "mangle";
    bench.put(closed, endpoints);
    await bench.sync();
    assert.equal(isServed(), false);
    iptables.rejects = () => false;
    await bench.clock.advance(2_000);
    await bench.sync();
    assert.ok(isServed());
  });
});

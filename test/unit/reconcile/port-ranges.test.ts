import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import { rangeMark } from "../../../src/plan/port-ranges.ts";
import type { Flow } from "../../../src/state/flow.ts";
import { markServerId, toServerKey, virtualServerKey } from "../../../src/state/virtual-server.ts";
import { dnsFlow } from "../../support/flows.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { cidr, endpointRecord, ip, portRecord, serviceRecord } from "../../support/records.ts";

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

  it("does not affect the address of another Service that lost the mark, if the kernel rejects it", async () => {
    const [own, other] = [ip("203.0.114.39"), ip("203.0.114.109")];
    const winner = { ...open, loadBalancerIps: [own] };
    const loser = serviceRecord({
      ...{ ...open, name: "default/loser", clusterIps: [ip("10.96.0.99")] },
      loadBalancerIps: [other],
    });
    const shared = markServerId("IPv4", rangeMark(own, portRangeMarks));
    bench = new Bench(undefined, { portRangeMarks });
    bench.put(winner, endpoints);
    bench.put(loser, endpoints);
    bench.kernel.operations.failWhere(
      ({ action, subject }) =>
        action === "virtual-server-create" && subject.includes(String(shared.port)),
      errno.EINVAL,
    );
    await bench.sync();
    assert.equal(bench.reconciler.cachedServers.has(virtualServerKey(shared)), false);
    assert.deepEqual(
      [own, other].map((one) => bench.state().includes(`${one}/32`)),
      [false, true],
    );
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

describe("UDP flows to a port range", () => {
  const voice = {
    ...open,
    ports: [portRecord({ name: "sip", port: 10_000, protocol: "UDP" })],
  } as const;
  const ports = [{ name: "sip", protocol: "UDP", port: 10_000 }] as const;
  const pods = [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")] as const;
  /** Flows of four clients: to each pod, and to no pod, inside and outside of the range. */
  const toFirst = flowTo(10_000, "10.244.2.11");
  const toSecond = flowTo(15_000, "10.244.2.12");
  const untranslated = flowTo(20_000, address);
  const outside = flowTo(20_001, address);

  function flowTo(port: number, answeredBy: string): Flow {
    const replySource = { replySource: ip(answeredBy), replySourcePort: port };
    return dnsFlow({ destination: address, destinationPort: port, ...replySource });
  }

  function put(...endpoints: Parameters<Bench["put"]>[1] & object): void {
    bench.put(voice, endpoints, { ports });
  }

  beforeEach(async () => {
    bench = new Bench(undefined, {
      portRangeMarks,
      drain: { tcpDeadlineSeconds: 900, udpDeadlineSeconds: 300 },
    });
  });

  async function remaining(...flows: readonly Flow[]): Promise<readonly Flow[]> {
    bench.kernel.conntrack.flows = flows;
    await bench.sync();
    return bench.kernel.conntrack.flows;
  }

  it("are deleted at first if no endpoint of the range answers them", async () => {
    put(...pods);
    const found = await remaining(toFirst, toSecond, untranslated, outside);
    assert.deepEqual(found, [toFirst, toSecond, outside]);
  });

  it("are deleted when the range gets its first endpoint", async () => {
    put();
    await bench.sync();
    put(...pods);
    assert.deepEqual(await remaining(toFirst, untranslated), [toFirst]);
  });

  it("are deleted when the drain of their endpoint ends", async () => {
    put(...pods);
    await bench.sync();
    const server = markServerId("IPv4", rangeMark(address, portRangeMarks));
    bench.kernel.ipvs.setConnections(
      server,
      { address: pods[1].address, port: 0 },
      { inactive: 1 },
    );
    put(pods[0]);
    assert.deepEqual(await remaining(toFirst, toSecond), [toFirst, toSecond]);
    await bench.clock.advance(3_000);
    await bench.checkDrains();
    assert.deepEqual(bench.kernel.conntrack.flows, [toFirst]);
  });

  it("are deleted with the Service", async () => {
    put(...pods);
    await bench.sync();
    bench.drop(voice.name);
    assert.deepEqual(await remaining(toFirst, outside), [outside]);
  });

  it("are kept if they go to another Service's port, which takes precedence", async () => {
    const other = serviceRecord({
      name: "default/other",
      clusterIps: [ip("10.96.0.99")],
      externalIps: [address],
      ports: [portRecord({ name: "dns", port: 15_000, protocol: "UDP" })],
    });
    const slice = { ports: [{ name: "dns", protocol: "UDP", port: 15_000 }] } as const;
    bench.put(other, [endpointRecord("10.244.2.13")], slice);
    put(...pods);
    const toOther = { ...flowTo(15_000, "10.244.2.13"), sourcePort: 4001 };
    assert.deepEqual(await remaining(toOther, toSecond), [toOther]);
  });

  it("are not requested again while endpoints are only added", async () => {
    put(pods[0]);
    await bench.sync();
    put(...pods);
    assert.deepEqual(await remaining(untranslated), [untranslated]);
  });
});

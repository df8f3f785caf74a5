/**
 * Counts each drain check's kernel requests while 5,000 real servers are draining, each with a flow.
 * test/unit/daemon/sync/drain-watch.test.ts tests the check intervals with a fake clock.
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { hostname } from "node:os";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { loadConfig } from "../../src/config/load-config.ts";
import { type InProcessDaemon, startInProcess } from "../support/in-process.ts";
import { until } from "../support/lab-node.ts";
import { clusterIpOf, endpointOf, nameOf } from "../support/many-services.ts";
import { MemorySource, type NamedObject } from "../support/memory-source.ts";
import { enterNetworkNamespace, shell } from "../support/netns/network-namespace.ts";
import { buildNodeNetwork } from "../support/node-network.ts";
import { endpoint, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { gaugeOf, silentMetrics } from "../support/silent-metrics.ts";

const serviceCount = 5_000;
/** Maximum number of virtual servers per check. */
const serversPerLook = 1_000;

const flags = new Map([
  ["hostname-override", ["node-1"]],
  ["cluster-cidr", ["10.244.0.0/16"]],
  ["ipvs-min-sync-period", ["0s"]],
  ["ipvs-sync-period", ["600s"]],
  ["kube-ipvs-verification-period", ["600s"]],
]);
const indices = Array.from({ length: serviceCount }, (_, index) => index);
const terminating = { ready: false, serving: true, terminating: true };

function serviceObject(index: number): NamedObject {
  const ports = [{ name: "dns", protocol: "UDP", port: 53, targetPort: 5353 }];
  const clusterIps = [clusterIpOf(index)];
  return service({ name: nameOf(index), clusterIps, ports }) as unknown as NamedObject;
}

/** A slice with two endpoints. `first` is the state of the first one. */
function sliceObject(index: number, first: "ready" | "terminating" | "gone"): NamedObject {
  const conditions = first === "ready" ? {} : { conditions: terminating };
  const endpoints = [
    ...(first === "gone" ? [] : [endpoint(endpointOf(index, 0), conditions)]),
    endpoint(endpointOf(index, 1)),
  ];
  const ports = [{ name: "dns", protocol: "UDP", port: 5353 }];
  const names = { name: `${nameOf(index)}-a`, service: nameOf(index) };
  return endpointSlice({ ...names, endpoints, ports }) as unknown as NamedObject;
}

/** Creates two flows to each virtual server, so that each real server has one. */
async function sendFlows(): Promise<void> {
  enterNetworkNamespace("client");
  const sockets = [createSocket("udp4"), createSocket("udp4")];
  for (const socket of sockets) {
    socket.bind(0);
    await once(socket, "listening");
  }
  enterNetworkNamespace("node");
  for (const index of indices) {
    for (const socket of sockets) socket.send("x", 53, clusterIpOf(index));
    if (index % 50 === 0) await pause(2);
  }
  await pause(500);
  for (const socket of sockets) socket.close();
}

describe(`${serviceCount} drains`, () => {
  const source = new MemorySource();
  let daemon: InProcessDaemon;
  let draining = 0;

  before(async () => {
    buildNodeNetwork([]);
    enterNetworkNamespace("node");
    // By default, a flow without an answer is tracked for only 30 s.
    shell("echo 600 > /proc/sys/net/netfilter/nf_conntrack_udp_timeout");
    source.apply(
      ...indices.flatMap((index) => [serviceObject(index), sliceObject(index, "ready")]),
    );
    const { config } = loadConfig(flags, { readFile: () => "", hostname });
    daemon = await startInProcess({
      config,
      source,
      metrics: {
        ...silentMetrics,
        drainingRealServers: gaugeOf<"drainingRealServers">((count) => {
          draining = count;
        }),
      },
    });
    await daemon.settled();
    await sendFlows();
  });

  after(() => daemon.stop());

  it("are counted in groups of a thousand, each once per round, without writes", async (test) => {
    const beganMs = performance.now();
    source.apply(...indices.map((index) => sliceObject(index, "terminating")));
    await daemon.settled();
    test.diagnostic(`${draining} drains began in ${Math.round(performance.now() - beganMs)} ms`);
    assert.ok(draining > serviceCount * 0.95, `${draining}`);
    const looks = test.mock.method(daemon.kernel.ipvs, "listRealServers").mock;
    const writes = test.mock.method(daemon.kernel.ipvs, "apply").mock;
    const looksPerRound = Math.ceil(draining / serversPerLook);
    await until(
      async () => looks.callCount() >= looksPerRound,
      120_000,
      async () => `${looks.callCount()} looks`,
    );
    const asked = looks.calls.slice(0, looksPerRound).map(({ arguments: [ids] }) => ids);
    assert.deepEqual(
      asked.filter((ids) => ids.length > serversPerLook),
      [],
    );
    const addresses = asked.flat().map(({ address }) => address);
    assert.equal(addresses.length, draining);
    assert.equal(new Set(addresses).size, draining);
    assert.deepEqual(
      writes.calls.flatMap(({ arguments: [changes] }) => changes),
      [],
    );
  });

  it("end, with their flows, when their connections are gone", async (test) => {
    const beganMs = performance.now();
    source.apply(...indices.map((index) => sliceObject(index, "ready")));
    await daemon.settled();
    assert.equal(draining, 0);
    test.diagnostic(`desired again after ${Math.round(performance.now() - beganMs)} ms`);
    const goneMs = performance.now();
    source.apply(...indices.map((index) => sliceObject(index, "gone")));
    await daemon.settled();
    await until(
      async () => draining === 0,
      patienceMs,
      async () => `${draining} drain`,
    );
    test.diagnostic(`gone in ${Math.round(performance.now() - goneMs)} ms`);
    const flows = await daemon.kernel.conntrack.listUdpFlows("IPv4");
    const gone = new Set(indices.map((index) => endpointOf(index, 0)));
    assert.equal(flows.filter(({ replySource }) => gone.has(replySource)).length, 0);
    assert.ok(flows.length > serviceCount * 0.95, `${flows.length}`);
  });
});

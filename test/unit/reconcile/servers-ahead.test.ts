import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { errno } from "../../../src/base/errno.ts";
import {
  type ServerKey,
  type VirtualServerId,
  virtualServerKey,
} from "../../../src/state/virtual-server.ts";
import { real, virtual } from "../../contract/servers.ts";
import type { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { Bench } from "../../support/reconcile-bench.ts";
import { endpointRecord, ip, serviceRecord } from "../../support/records.ts";

const names = ["a", "b", "c"];
const addressOf = (name: string): string => `10.96.0.${1 + names.indexOf(name)}`;
const idOf = (name: string): VirtualServerId => virtual({ address: ip(addressOf(name)), port: 80 });
const keyOf = (name: string): ServerKey => virtualServerKey(idOf(name));

function put(bench: Bench): void {
  for (const name of names) {
    const service = serviceRecord({ name: `default/${name}`, clusterIps: [ip(addressOf(name))] });
    bench.put(service, [endpointRecord(`10.244.2.${1 + names.indexOf(name)}`)]);
  }
}

/** From now on, records the keys of virtual servers whose real servers are read. */
function noteReads({ ipvs }: FakeKernel): string[] {
  const read: string[] = [];
  const readRealServers = ipvs.readRealServers.bind(ipvs);
  ipvs.readRealServers = (servers, cached) => {
    read.push(...servers.map(virtualServerKey));
    return readRealServers(servers, cached);
  };
  return read;
}

describe("servers that are read before the first sync", () => {
  let kernel: FakeKernel;
  let restarted: Bench;
  let read: string[];

  beforeEach(async () => {
    const first = new Bench();
    put(first);
    await first.sync();
    kernel = first.kernel;
    restarted = new Bench(kernel);
    put(restarted);
    read = noteReads(kernel);
  });

  it("are read once, regardless of the number of readers, and cause no writes if the kernel state is correct", async () => {
    const [one, other] = await Promise.all([
      restarted.reconciler.serversAhead.read(),
      restarted.reconciler.serversAhead.read(),
    ]);
    assert.equal(one, other);
    assert.deepEqual(await restarted.writes(), []);
    assert.deepEqual(read, names.map(keyOf));
  });

  it("share the planned lists", async () => {
    await restarted.reconciler.serversAhead.read();
    await restarted.sync();
    const key = keyOf("a");
    const cached = restarted.reconciler.cachedServers.get(key)?.realServers;
    assert.equal(cached, restarted.desired.virtualServer(key)?.realServers);
  });

  it("are updated if they differ", async () => {
    const realServer = real("10.244.9.9", { port: 80 });
    kernel.ipvs.interfere({
      kind: "real-server-create",
      virtualServer: idOf("a"),
      after: realServer,
    });
    await restarted.reconciler.serversAhead.read();
    assert.match((await restarted.writes()).join("\n"), /10\.244\.9\.9/);
  });

  it("are recreated if they were removed, and foreign if they were added", async () => {
    await restarted.reconciler.serversAhead.read();
    kernel.ipvs.interfere({ kind: "virtual-server-remove", before: idOf("a") });
    const virtualServer = { ...virtual({ address: ip("10.50.0.1") }), scheduler: "wlc" };
    kernel.ipvs.interfere({ kind: "virtual-server-create", after: virtualServer });
    const report = await restarted.sync();
    assert.deepEqual(
      report.plan.changes.map(({ kind }) => kind),
      ["virtual-server-create", "real-server-create"],
    );
    assert.deepEqual(report.foreignServers, [virtualServerKey(virtualServer)]);
    assert.deepEqual(read, [...names.map(keyOf), virtualServerKey(virtualServer)]);
  });

  it("are read again if the result is too old", async () => {
    await restarted.reconciler.serversAhead.read();
    await restarted.clock.advance(60_001);
    assert.deepEqual(await restarted.writes(), []);
    assert.deepEqual(read, [...names, ...names].map(keyOf));
  });

  it("are read again for a single reader if the result is too old", async () => {
    const { serversAhead } = restarted.reconciler;
    const early = await serversAhead.read();
    kernel.ipvs.interfere({ kind: "virtual-server-remove", before: idOf("a") });
    await restarted.clock.advance(60_001);
    const late = await serversAhead.read();
    assert.deepEqual([early.length, late.length], [3, 2]);
  });

  it("are read again with each full observation after the first", async () => {
    await restarted.reconciler.serversAhead.read();
    await restarted.sync();
    read.length = 0;
    assert.deepEqual(await restarted.writes(true), []);
    assert.deepEqual(read, names.map(keyOf));
  });

  it("are read by the first sync if reading ahead failed", async () => {
    kernel.operations.failWhere(({ action }) => action === "read-real-servers", errno.ENOBUFS, 1);
    await assert.rejects(restarted.reconciler.serversAhead.read());
    const report = await restarted.sync();
    assert.deepEqual(report.failures, []);
    assert.deepEqual(report.plan.changes, []);
  });
});

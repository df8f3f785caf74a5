import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentEvents } from "../../../../src/api/event.ts";
import { errno } from "../../../../src/base/errno.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { toServiceName } from "../../../../src/base/service-name.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { ServiceHealthServers } from "../../../../src/daemon/http/service-health.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { SyncReporter } from "../../../../src/daemon/report/sync-reporter.ts";
import { SyncLoop } from "../../../../src/daemon/sync/sync-loop.ts";
import { setFor } from "../../../../src/plan/sets.ts";
import { toServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { nodeAddress, standardNodeAddresses } from "../../../support/fake-kernel/fake-link.ts";
import { addressesText, ipvsText } from "../../../support/fake-kernel/state-text.ts";
import {
  endpointRecord,
  ip,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";
import { silentMetrics } from "../../../support/silent-metrics.ts";

const flags = new Map([
  ["hostname-override", ["node-1"]],
  ["ipvs-min-sync-period", ["1s"]],
  ["ipvs-sync-period", ["30s"]],
  ["cluster-cidr", ["10.244.0.0/16"]],
]);
const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "other" });

const service = serviceRecord({ type: "NodePort", ports: [portRecord({ nodePort: 30080 })] });
const first = endpointRecord("10.244.2.11");
const second = endpointRecord("10.244.2.12");

describe("SyncLoop", () => {
  let kernel: FakeKernel;
  let clock: FakeClock;
  let health: ProxyHealth;
  let loop: SyncLoop;

  beforeEach(() => {
    kernel = new FakeKernel();
    clock = new FakeClock();
    health = new ProxyHealth(clock, 60_000);
    const reporter = new SyncReporter({
      ...{ metrics: silentMetrics, health, clock, log: silentLogger },
      ...{ events: silentEvents, nodeName: "node-1" },
    });
    const healthChecks = new ServiceHealthServers({ clock, log: silentLogger, health });
    const parts = { kernel, clock, log: silentLogger, reporter, healthChecks };
    // Other programs also use the processors.
    const collaborators = { ...parts, processorMs: () => 0 };
    loop = new SyncLoop(collaborators, { current: config }, ["IPv4", "IPv6"]);
    loop.start();
  });

  /** Syncs one Service with its slice. All lists are complete. */
  async function synced(): Promise<void> {
    loop.input.noteService(undefined, service);
    loop.input.noteSlice(undefined, sliceRecord([first]));
    for (const kind of ["services", "endpointslices", "nodes"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(5_000);
    await loop.settled();
  }

  async function writes(): Promise<readonly string[]> {
    await clock.advance(2_000);
    return kernel.operations.texts();
  }

  it("writes nothing before Services, slices and the Node are listed", async () => {
    loop.input.noteService(undefined, service);
    loop.input.noteSynced("services");
    await clock.advance(20_000);
    loop.input.noteSynced("nodes");
    await clock.advance(60_000);
    assert.deepEqual(kernel.operations.texts(), []);
    loop.input.noteSynced("endpointslices");
    await clock.advance(0);
    assert.match(ipvsText(kernel), /-A -t 10\.96\.0\.10:80/);
  });

  it("plans while the lists arrive, and writes when they are complete", async () => {
    loop.input.noteSynced("nodes");
    for (let index = 0; index < 300; index++) {
      const [name, address] = [
        toServiceName(`default/${index}`),
        `10.97.${index >> 8}.${index & 255}`,
      ];
      loop.input.noteService(undefined, serviceRecord({ name, clusterIps: [ip(address)] }));
      loop.input.noteSlice(undefined, sliceRecord([first], { name: `${name}-1`, service: name }));
    }
    loop.input.noteService(undefined, service);
    loop.input.noteSlice(undefined, sliceRecord([first]));
    await clock.advance(5_000);
    assert.ok([...loop.view.plan.desired.virtualServerKeys()].length > 200);
    assert.deepEqual(kernel.operations.texts(), []);
    loop.input.noteSynced("services");
    loop.input.noteSynced("endpointslices");
    await clock.advance(0);
    await loop.settled();
    assert.match(ipvsText(kernel), /-a -t 10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/);
  });

  it("also plans ahead if the list of Services is complete before slices arrive", async () => {
    loop.input.noteSynced("nodes");
    const names = Array.from({ length: 1_000 }, (_, index) => toServiceName(`default/${index}`));
    for (const [index, name] of names.entries()) {
      const address = ip(`10.97.${index >> 8}.${index & 255}`);
      loop.input.noteService(undefined, serviceRecord({ name, clusterIps: [address] }));
    }
    loop.input.noteSynced("services");
    await clock.advance(1_000);
    assert.equal([...loop.view.plan.desired.virtualServerKeys()].length, 0);
    for (const [index, name] of names.entries()) {
      loop.input.noteSlice(undefined, sliceRecord([first], { name: `${name}-1`, service: name }));
      // The end of a list page.
      if (index % 100 === 99) await clock.advance(100);
    }
    assert.ok([...loop.view.plan.desired.virtualServerKeys()].length > 600);
    assert.deepEqual(kernel.operations.texts(), []);
  });

  it("continues without the Node after 30 s", async () => {
    loop.input.noteService(undefined, service);
    loop.input.noteSynced("services");
    loop.input.noteSynced("endpointslices");
    await clock.advance(29_000);
    assert.deepEqual(kernel.operations.texts(), []);
    await clock.advance(1_000);
    assert.match(ipvsText(kernel), /-A -t 10\.96\.0\.10:80/);
  });

  it("combines a burst into one sync a second later", async () => {
    await synced();
    kernel.operations.clear();
    loop.input.noteSlice(sliceRecord([first]), sliceRecord([first, second]));
    await clock.advance(0);
    loop.input.noteSlice(sliceRecord([first, second]), sliceRecord([first]));
    loop.input.noteSlice(sliceRecord([first]), sliceRecord([first, second]));
    assert.deepEqual(await writes(), [
      "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.12:8080",
      "ipvs real-server-create TCP 172.16.5.11:30080 -> 10.244.2.12:8080",
      "ipvs real-server-create TCP 192.168.10.11:30080 -> 10.244.2.12:8080",
    ]);
  });

  it("serves node ports on a new address immediately, and stops when it is removed", async () => {
    await synced();
    kernel.operations.clear();
    const appeared = nodeAddress("172.16.6.11", 24, 3);
    kernel.link.setNodeAddresses([...standardNodeAddresses, appeared]);
    assert.deepEqual(await writes(), [
      "ipvs virtual-server-create TCP 172.16.6.11:30080",
      "ipvs real-server-create TCP 172.16.6.11:30080 -> 10.244.2.11:8080",
    ]);
    kernel.operations.clear();
    kernel.link.setNodeAddresses(standardNodeAddresses);
    assert.deepEqual(await writes(), ["ipvs virtual-server-remove TCP 172.16.6.11:30080"]);
  });

  it("releases an API server's address when its slice moves to another Service", async () => {
    const external = serviceRecord({ externalIps: [ip("203.0.113.5")] });
    const apiServers = sliceRecord([endpointRecord("203.0.113.5")], {
      service: "default/kubernetes",
    });
    loop.input.noteService(undefined, external);
    loop.input.noteSlice(undefined, apiServers);
    for (const kind of ["services", "endpointslices", "nodes"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(5_000);
    assert.doesNotMatch(addressesText(kernel), /203\.0\.113\.5/);
    loop.input.noteSlice(apiServers, { ...apiServers, service: "default/other" });
    await clock.advance(5_000);
    assert.match(addressesText(kernel), /203\.0\.113\.5/);
  });

  it("repairs third-party removals with the next period", async () => {
    await synced();
    const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
    await kernel.ipvs.apply([{ kind: "virtual-server-remove", before: server }]);
    kernel.operations.clear();
    await clock.advance(30_000);
    assert.deepEqual(kernel.operations.texts(), [
      "ipvs virtual-server-create TCP 10.96.0.10:80",
      "ipvs real-server-create TCP 10.96.0.10:80 -> 10.244.2.11:8080",
    ]);
  });

  it("binds an address again immediately if a third party removes it", async () => {
    await synced();
    await kernel.link.apply([{ kind: "address-remove", address: ip("10.96.0.10") }]);
    kernel.operations.clear();
    assert.deepEqual(await writes(), ["link address-add 10.96.0.10"]);
  });

  it("refills a set within seconds if a third party flushes it", async () => {
    await synced();
    kernel.ipSets.put(setFor("clusterIp", "IPv4"));
    kernel.operations.clear();
    await clock.advance(10_000);
    assert.deepEqual(kernel.operations.texts(), [
      "ipset entry-add KUBE-CLUSTER-IP 10.96.0.10,tcp:80",
    ]);
  });

  it("observes the kernel again within seconds if it is unknown whether a drained real server was removed", async () => {
    await synced();
    const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
    kernel.ipvs.setConnections(server, { address: first.address, port: 8080 }, { active: 3 });
    loop.input.noteSlice(sliceRecord([first]), sliceRecord([second]));
    await clock.advance(5_000);
    kernel.ipvs.setConnections(server, { address: first.address, port: 8080 }, {});
    const { reconciler } = loop.view;
    kernel.operations.loseReplyWhere(({ action }) => action === "real-server-remove");
    await clock.advance(4_000);
    assert.doesNotMatch(ipvsText(kernel), /10\.244\.2\.11/);
    assert.equal(reconciler.drainer.count, 0);
    assert.equal(
      reconciler.cachedServers.get(toServerKey("TCP 10.96.0.10:80"))?.realServers.length,
      1,
    );
  });

  it("checks draining real servers every second until they are deleted", async () => {
    await synced();
    const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
    kernel.ipvs.setConnections(server, { address: first.address, port: 8080 }, { active: 3 });
    loop.input.noteSlice(sliceRecord([first]), sliceRecord([second]));
    await clock.advance(10_000);
    assert.match(ipvsText(kernel), /10\.96\.0\.10:80 -r 10\.244\.2\.11:8080 -m -w 0/);
    kernel.ipvs.setConnections(server, { address: first.address, port: 8080 }, {});
    await clock.advance(1_000);
    assert.doesNotMatch(ipvsText(kernel), /10\.244\.2\.11/);
  });

  it("checks rules for at most a fiftieth of the time if programs are slow and rules change constantly", async () => {
    await synced();
    const { iptables } = kernel;
    iptables.hasGenerations = false;
    let looks = 0;
    const observe = iptables.observe.bind(iptables);
    iptables.observe = async (family, scope) => {
      looks += 1;
      await new Promise<void>((resolve) => clock.after(300, resolve));
      return observe(family, scope);
    };
    await clock.advance(600_000);
    // A check takes 600 ms for both families, followed by a 29.4 s pause. Without a limit, there would be 60 checks of
    // each.
    assert.ok(looks > 30 && looks <= 42, `${looks}`);
  });

  it("retries soon after a failure, and is unhealthy if a change waits too long", async () => {
    await synced();
    const heal = kernel.operations.failWhere(({ facility }) => facility === "ipvs", errno.EPERM);
    loop.input.noteSlice(sliceRecord([first]), sliceRecord([first, second]));
    await clock.advance(59_000);
    assert.equal(health.report().isHealthy, true);
    await clock.advance(2_000);
    assert.equal(health.report().isHealthy, false);
    heal();
    await clock.advance(30_000);
    assert.equal(health.report().isHealthy, true);
    assert.match(ipvsText(kernel), /10\.244\.2\.12:8080 -m -w 1/);
  });

  it("leaves the kernel state unchanged when it stops, and starts nothing more", async () => {
    await synced();
    const before = ipvsText(kernel);
    await loop.stop();
    kernel.operations.clear();
    loop.input.noteService(service, undefined);
    await clock.advance(120_000);
    assert.deepEqual(kernel.operations.texts(), []);
    assert.equal(ipvsText(kernel), before);
    assert.equal(clock.pendingTimers, 0);
  });
});

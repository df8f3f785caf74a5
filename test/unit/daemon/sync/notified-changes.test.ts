import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { silentEvents } from "../../../../src/api/event.ts";
import { errno } from "../../../../src/base/errno.ts";
import { loadConfig } from "../../../../src/config/load-config.ts";
import { ServiceHealthServers } from "../../../../src/daemon/http/service-health.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { SyncReporter } from "../../../../src/daemon/report/sync-reporter.ts";
import { SyncLoop } from "../../../../src/daemon/sync/sync-loop.ts";
import type { TablesListener } from "../../../../src/kernel/kernel.ts";
import { setFor } from "../../../../src/plan/sets.ts";
import { addressPortEntry } from "../../../../src/state/set-entry.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import type { Operation } from "../../../support/fake-kernel/operations.ts";
import { ipSetText } from "../../../support/fake-kernel/state-text.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { endpointRecord, ip, serviceRecord, sliceRecord } from "../../../support/records.ts";
import { silentMetrics } from "../../../support/silent-metrics.ts";

const flags = new Map([
  ["hostname-override", ["node-1"]],
  ["ipvs-min-sync-period", ["0s"]],
  ["ipvs-sync-period", ["1h"]],
  ["kube-ipvs-rule-check-period", ["1h"]],
  ["kube-ipvs-verification-period", ["1h"]],
  ["cluster-cidr", ["10.244.0.0/16"]],
]);
const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "other" });

const clusterIps = setFor("clusterIp", "IPv4");
const [planned, foreign] = ["10.96.0.10", "10.96.0.99"].map((address) =>
  addressPortEntry(ip(address), "TCP", 80),
);
/** Less than the interval of any periodic check. */
const soonMs = 100;

describe("after a notification about kube-ipvs's tables", () => {
  let kernel: FakeKernel;
  let listener: TablesListener | undefined;
  let clock: FakeClock;
  let log: RecordingLogger;
  let reporter: SyncReporter;
  let loop: SyncLoop;

  beforeEach(async () => {
    listener = undefined;
    kernel = Object.assign(new FakeKernel(), {
      watchTables: (given: TablesListener) => {
        listener = given;
        return () => {
          listener = undefined;
        };
      },
    });
    clock = new FakeClock();
    log = new RecordingLogger();
    const health = new ProxyHealth(clock, 60_000);
    reporter = new SyncReporter({
      ...{ metrics: silentMetrics, health, clock, log, events: silentEvents, nodeName: "node-1" },
    });
    const healthChecks = new ServiceHealthServers({ clock, log, health });
    const parts = { kernel, clock, log, reporter, healthChecks };
    loop = new SyncLoop(parts, { current: config }, ["IPv4"]);
    loop.start();
    assert.equal(listener, undefined, "no watch before the first sync");
    loop.input.noteService(undefined, serviceRecord());
    loop.input.noteSlice(undefined, sliceRecord([endpointRecord("10.244.2.11")]));
    for (const kind of ["services", "endpointslices", "nodes"] as const)
      loop.input.noteSynced(kind);
    await clock.advance(soonMs);
    await loop.settled();
    assert.match(ipSetText(kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
  });

  async function notify(by?: string, ...setNames: readonly string[]): Promise<void> {
    listener?.onChange(by === undefined ? {} : { by, setNames: new Set(setNames) });
    await clock.advance(soonMs);
  }

  function drifts(): readonly string[] {
    return log.lines
      .filter(({ event }) => event === "Kernel state changed by a third party")
      .map(({ keys }) => `${keys["subject"]} ${keys["action"]} ${keys["changedBy"]}`);
  }

  it("a flushed set is filled again at once, and log and status name the program", async () => {
    kernel.ipSets.flush(clusterIps.name);
    await notify("nft (PID 4711)");
    assert.match(ipSetText(kernel), /add KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80/);
    assert.deepEqual(drifts(), ["KUBE-CLUSTER-IP 10.96.0.10,tcp:80 repair nft (PID 4711)"]);
    assert.equal(reporter.history.lastDrift?.changedBy, "nft (PID 4711)");
  });

  it("a changed entry is found even if the number of entries is the same", async () => {
    assert.ok(planned !== undefined && foreign !== undefined);
    await kernel.ipSets.apply([
      { kind: "entry-remove", set: clusterIps, entry: planned },
      { kind: "entry-add", set: clusterIps, entry: foreign },
    ]);
    await notify("nft (PID 4711)", clusterIps.name);
    assert.match(ipSetText(kernel), /10\.96\.0\.10,tcp:80/);
    assert.doesNotMatch(ipSetText(kernel), /10\.96\.0\.99/);
  });

  it("a changed entry is found if the first check could not read the kernel", async () => {
    assert.ok(planned !== undefined && foreign !== undefined);
    await kernel.ipSets.apply([
      { kind: "entry-remove", set: clusterIps, entry: planned },
      { kind: "entry-add", set: clusterIps, entry: foreign },
    ]);
    const isRead = ({ action }: Operation): boolean => action === "list-sets";
    kernel.operations.failWhere(isRead, errno.ENOBUFS, 1);
    await notify("nft (PID 4711)", clusterIps.name);
    await clock.advance(2_000);
    assert.match(ipSetText(kernel), /10\.96\.0\.10,tcp:80/);
  });

  it("a set that is flushed once a second is never without its entries for longer than a second", async () => {
    for (let second = 0; second < 60; second += 1) {
      kernel.ipSets.flush(clusterIps.name);
      await notify("nft (PID 4711)");
      await clock.advance(1_000 - soonMs);
      assert.match(ipSetText(kernel), /10\.96\.0\.10,tcp:80/);
    }
  });

  it("drift has no known cause if notifications were lost or the notified change made no difference", async () => {
    await notify("nft (PID 4711)");
    assert.deepEqual(drifts(), []);
    await clock.advance(1_000);
    kernel.ipSets.flush(clusterIps.name);
    await notify();
    assert.deepEqual(drifts(), ["KUBE-CLUSTER-IP 10.96.0.10,tcp:80 repair undefined"]);
  });

  it("nothing is checked after a stop", async () => {
    await loop.stop();
    assert.equal(listener, undefined);
    assert.equal(clock.pendingTimers, 0);
  });
});

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { sleep } from "../../../src/base/clock.ts";
import { errno } from "../../../src/base/errno.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import {
  type PrometheusMetrics,
  prometheusMetrics,
} from "../../../src/metrics/prometheus-metrics.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, endpointSlice, node, service } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

/** An API server that never answers. */
class SilentSource extends MemorySource {
  override async start(): Promise<void> {}
}

const sourceOf = (...objects: readonly ApiObject[]): MemorySource => {
  const source = new MemorySource();
  source.apply(...(objects as readonly (ApiObject & NamedObject)[]));
  return source;
};

const flags = new Map([["hostname-override", ["node-1"]]]);
const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "other" });

describe("a daemon that starts", () => {
  let kernel: FakeKernel;
  let clock: FakeClock;
  let health: ProxyHealth;
  let metrics: PrometheusMetrics;
  let log: RecordingLogger;

  beforeEach(() => {
    kernel = new FakeKernel();
    clock = new FakeClock();
    health = new ProxyHealth(clock, 60_000);
    metrics = prometheusMetrics({ version: "0.0.0" });
    log = new RecordingLogger();
  });

  const start = async (source: MemorySource): Promise<void> => {
    await startDaemon({ config, kernel, source, metrics, health, clock, log });
    await clock.advance(100_000);
  };

  /** From now on, each such call of the IPVS client takes this long. */
  function delayCalls(method: "listVirtualServers" | "apply", delayMs: number): void {
    const { ipvs } = kernel;
    const call = ipvs[method].bind(ipvs) as (...args: readonly unknown[]) => Promise<never>;
    ipvs[method] = async (...args: readonly unknown[]) => {
      await sleep(clock, delayMs);
      return await call(...args);
    };
  }

  async function firstSyncCompleted(): Promise<string | undefined> {
    return /^kube_ipvs_first_sync_completed (.*)$/m.exec(await metrics.exposition())?.[1];
  }

  const firstSyncLines = () => log.lines.filter(({ event }) => event === "First sync completed");

  it("is alive but never ready if nothing is listed", async () => {
    await start(new SilentSource());
    assert.equal(health.report().isHealthy, true);
    assert.match(
      health.notReadyReason ?? "",
      /^The first sync is waiting for the Node object, Serv/,
    );
    assert.equal(await firstSyncCompleted(), "0");
    assert.deepEqual(firstSyncLines(), []);
  });

  it("is ready after its first sync, and logs this once", async () => {
    await start(sourceOf(node(), service(), endpointSlice()));
    assert.equal(health.notReadyReason, undefined);
    assert.equal(await firstSyncCompleted(), "1");
    const [line, ...more] = firstSyncLines();
    assert.deepEqual(more, []);
    assert.equal(line?.keys["services"], 1);
    assert.equal(line?.keys["virtualServers"], 1);
    assert.ok(Number(line?.keys["changes"]) > 0);
    assert.match(String(line?.keys["elapsed"]), /ms$/);
  });

  it("logs that it has listed everything, with counts", async () => {
    await start(sourceOf(node(), service(), endpointSlice()));
    const lines = log.lines.filter(({ event }) => event === "Initial lists completed");
    assert.deepEqual(
      lines.map(({ keys }) => keys),
      [{ services: 1, endpointSlices: 1, sinceStart: "0.0s" }],
    );
  });

  it("logs the progress of a slow first sync every 5 s, but not of later syncs", async () => {
    const source = sourceOf(node(), service(), endpointSlice());
    await startDaemon({ config, kernel, source, metrics, health, clock, log });
    delayCalls("listVirtualServers", 6_000);
    delayCalls("apply", 6_000);
    await clock.advance(100_000);
    const lines = log.lines.filter(({ event }) => event === "First sync in progress");
    const [planning, ...applying] = lines.map(({ keys }) => keys);
    assert.deepEqual(planning, { phase: "plan", elapsed: "5.0s" });
    assert.equal(applying.length, 2, "10 and 15 of 18 s");
    const [second, third] = applying.map(({ done, total }) => [Number(done), Number(total)]);
    assert.ok(second?.[0] !== undefined && second[0] < Number(third?.[0]), "goes on");
    assert.ok(Number(third?.[0]) < Number(third?.[1]), "not done yet");
    source.apply(service({ clusterIps: ["10.96.0.99"] }) as ApiObject & NamedObject);
    await clock.advance(60_000);
    const all = log.lines.filter(({ event }) => event === "First sync in progress");
    assert.equal(all.length, lines.length);
    assert.equal(firstSyncLines().length, 1);
  });

  it("is not ready while its first sync fails, and ready once it succeeds", async () => {
    const mend = kernel.operations.failWhere(
      ({ facility, isRead }) => facility === "link" && isRead !== true,
      errno.EPERM,
    );
    await start(sourceOf(node(), service(), endpointSlice()));
    assert.equal(health.notReadyReason, "The first sync has not succeeded yet");
    assert.equal(await firstSyncCompleted(), "0");
    mend();
    await clock.advance(60_000);
    assert.equal(health.notReadyReason, undefined);
    assert.equal(firstSyncLines().length, 1);
  });
});

import assert from "node:assert/strict";
import { it } from "node:test";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../../src/daemon/start.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { MemorySource, type NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, node } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { loadFile } from "../config/loading.ts";

it("open node ports are reported once, regardless of later node and configuration changes", async () => {
  const { config } = loadFile("mode: ipvs\nnodePortAddresses: []", {
    "hostname-override": "node-1",
  });
  const clock = new FakeClock();
  const log = new RecordingLogger();
  const source = new MemorySource();
  const apply = (object: ApiObject): void => source.apply(object as ApiObject & NamedObject);
  apply(node());
  const health = new ProxyHealth(clock, 60_000);
  const kernel = new FakeKernel();
  const daemon = await startDaemon({
    config,
    kernel,
    source,
    metrics: silentMetrics,
    health,
    clock,
    log,
  });
  await clock.advance(1_000);
  apply(node({ metadata: { labels: { a: "b" } } }));
  await clock.advance(60_000);
  await daemon.reconfigure({ ...config, masqueradeAll: true });
  await clock.advance(60_000);
  const about = log.lines.filter(({ keys }) => /nodePortAddresses/.test(String(keys["reason"])));
  assert.equal(about.length, 1);
  await daemon.stop();
});

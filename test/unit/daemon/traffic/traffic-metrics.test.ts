import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TrafficMetrics } from "../../../../src/daemon/traffic/traffic-metrics.ts";
import {
  type CountedServer,
  TrafficTotals,
} from "../../../../src/daemon/traffic/traffic-totals.ts";
import { noTraffic } from "../../../../src/state/traffic.ts";
import type { VirtualServerId } from "../../../../src/state/virtual-server.ts";
import { virtual } from "../../../contract/servers.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { endpointSlice, node, service } from "../../../support/objects.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const all = (): boolean => true;

function server(key: string, connections: number, series = key): CountedServer {
  return {
    key,
    series,
    labels: [series],
    activeConnections: 1,
    inactiveConnections: 2,
    traffic: { ...noTraffic, connections },
  };
}

function shown(totals: TrafficTotals): readonly string[] {
  return [...totals.series()].map(
    ({ labels, traffic, activeConnections }) =>
      `${labels[0]} ${traffic.connections} ${activeConnections}`,
  );
}

describe("traffic counters", () => {
  it("continue from the kernel's values, and add new traffic", () => {
    const totals = new TrafficTotals(10, ["other"]);
    totals.take([server("a", 100)], all);
    totals.take([server("a", 130)], all);
    assert.deepEqual(shown(totals), ["a 130 1"]);
  });

  it("survive if a virtual server is recreated or missing for some time", () => {
    const totals = new TrafficTotals(10, ["other"]);
    totals.take([server("a", 100)], all);
    totals.take([server("a", 5)], all);
    assert.deepEqual(shown(totals), ["a 105 1"]);
    totals.take([], all);
    assert.deepEqual(shown(totals), ["a 105 0"]);
    totals.take([server("a", 3)], all);
    assert.deepEqual(shown(totals), ["a 108 1"]);
  });

  it("sum the virtual servers of a Service port", () => {
    const totals = new TrafficTotals(10, ["other"]);
    totals.take([server("a", 1, "x"), server("b", 2, "x")], all);
    assert.deepEqual(shown(totals), ["x 3 2"]);
  });

  it("of Services above the limit are combined into one series that never decreases", () => {
    const totals = new TrafficTotals(2, ["other"]);
    totals.take([server("a", 1), server("b", 2), server("c", 3), server("d", 4)], all);
    assert.deepEqual(shown(totals), ["a 1 1", "b 2 1", "other 7 2"]);
    totals.take([server("b", 2), server("c", 13), server("d", 4)], (series) => series !== "a");
    assert.deepEqual(shown(totals), ["b 2 1", "c 10 1", "other 7 1"]);
  });
});

const web: VirtualServerId = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 };

interface Scraped {
  readonly metrics: TrafficMetrics;
  readonly log: RecordingLogger;
  readonly onNode: FakeNode;
  readonly clock: FakeClock;
}

async function scraped(hasEndpoints: boolean): Promise<Scraped> {
  const clock = new FakeClock();
  const onNode = new FakeNode({});
  const objects = [node(), service(), endpointSlice()] as readonly unknown[];
  onNode.source.apply(...(objects as readonly NamedObject[]));
  await onNode.start();
  await onNode.settle();
  const log = new RecordingLogger();
  const { sysctl } = onNode.kernel;
  const metrics = new TrafficMetrics(
    { clock, log, sysctl, view: () => onNode.view },
    { trafficMetrics: hasEndpoints ? "endpoint" : "service", trafficMetricsLimit: 100 },
  );
  return { metrics, log, onNode, clock };
}

function samples(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
}

const labels = 'namespace="default",service="web",port="http",protocol="TCP"';

describe("traffic on /metrics", () => {
  it("has the names of Services, and is read at most once every 5 s", async () => {
    const { metrics, onNode, clock } = await scraped(false);
    onNode.kernel.ipvs.setTraffic(web, { connections: 3, bytesIn: 30, bytesOut: 70 });
    const first = samples(await metrics.exposition());
    assert.deepEqual(first, [
      "kube_ipvs_traffic_counted 1",
      `kube_ipvs_service_connections_total{${labels}} 3`,
      `kube_ipvs_service_incoming_packets_total{${labels}} 0`,
      `kube_ipvs_service_outgoing_packets_total{${labels}} 0`,
      `kube_ipvs_service_incoming_bytes_total{${labels}} 30`,
      `kube_ipvs_service_outgoing_bytes_total{${labels}} 70`,
      `kube_ipvs_service_active_connections{${labels}} 0`,
      `kube_ipvs_service_inactive_connections{${labels}} 0`,
    ]);
    onNode.kernel.ipvs.setTraffic(web, { connections: 4 });
    assert.deepEqual(samples(await metrics.exposition()), first);
    await clock.advance(5_000);
    const later = samples(await metrics.exposition());
    assert.equal(later[1], `kube_ipvs_service_connections_total{${labels}} 7`);
    await onNode.stop();
  });

  it("omits foreign virtual servers, and names endpoints if configured", async () => {
    const { metrics, onNode } = await scraped(true);
    const foreign = virtual({ address: ip("10.99.0.1") });
    onNode.kernel.ipvs.interfere({ kind: "virtual-server-create", after: foreign });
    const text = await metrics.exposition();
    assert.ok(!text.includes("10.99.0.1"));
    const active = samples(text).filter((line) => line.includes("endpoint_active"));
    assert.ok(active.length > 0);
    for (const line of active) assert.match(line, /,endpoint="10\.244\.\d+\.\d+:8080"\} 0$/);
    await onNode.stop();
  });

  it("has no counters while the kernel does not update them, and logs this once", async () => {
    const { metrics, onNode, log, clock } = await scraped(false);
    onNode.kernel.sysctl.values.set("net/ipv4/vs/run_estimation", "0");
    for (let count = 0; count < 2; count += 1) {
      assert.deepEqual(samples(await metrics.exposition()), [
        "kube_ipvs_traffic_counted 0",
        `kube_ipvs_service_active_connections{${labels}} 0`,
        `kube_ipvs_service_inactive_connections{${labels}} 0`,
      ]);
      await clock.advance(5_000);
    }
    assert.equal(
      log.lines.filter((line) => line.event.startsWith("Traffic metrics lack")).length,
      1,
    );
    await onNode.stop();
  });

  it("is omitted from a scrape if the kernel cannot be read", async () => {
    const { metrics, onNode, log } = await scraped(false);
    onNode.kernel.operations.failWhere(({ action }) => action === "list-traffic", 105);
    assert.equal(await metrics.exposition(), "");
    assert.equal(
      log.lines.filter((line) => line.event.startsWith("Cannot read traffic")).length,
      1,
    );
    await onNode.stop();
  });
});

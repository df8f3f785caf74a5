import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { describe, it } from "node:test";
import { gunzipSync } from "node:zlib";
import { type ClusterEvent, silentEvents } from "../../../src/api/event.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import { metricsResponder } from "../../../src/daemon/metrics-server.ts";
import { ProxyHealth } from "../../../src/daemon/proxy-health.ts";
import { startServers } from "../../../src/daemon/servers.ts";
import { PrometheusMetrics } from "../../../src/metrics/prometheus-metrics.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

const exposition = { exposition: () => Promise.resolve("up 1\n"), contentType: "text/plain; v" };

describe("the metrics server answers", () => {
  const cases: readonly (readonly [target: string, status: number, body: string])[] = [
    ["/metrics", 200, "up 1\n"],
    ["/proxyMode", 200, "ipvs"],
    ["/healthz", 200, "ok"],
    ["/healthz/ping", 200, "ok"],
    ["/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"],
    ["/healthz?verbose&exclude=ping", 200, "[+]ping excluded: ok\nhealthz check passed\n"],
    ["/", 404, "404 page not found\n"],
    ["/proxyMode/", 404, "404 page not found\n"],
    ["/debug/pprof/", 404, "404 page not found\n"],
  ];
  for (const [target, status, body] of cases) {
    it(target, async () => {
      const [path = "", query] = target.split("?");
      const request = { path, query: new URLSearchParams(query), acceptsGzip: false };
      const answer = await metricsResponder(exposition)(request);
      assert.deepEqual([answer.status, answer.body], [status, body]);
      const type = path === "/metrics" ? "text/plain; v" : "text/plain; charset=utf-8";
      assert.equal(answer.headers["Content-Type"], type);
    });
  }

  it("a scraper that takes gzip", async () => {
    const request = { path: "/metrics", query: new URLSearchParams(), acceptsGzip: true };
    const answer = await metricsResponder(exposition)(request);
    assert.equal(answer.headers["Content-Encoding"], "gzip");
    assert.equal(gunzipSync(answer.body).toString(), "up 1\n");
  });
});

describe("startServers", () => {
  async function freePort(): Promise<number> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }

  it("serves both addresses, real metrics included, and closes them", async () => {
    const clock = new FakeClock();
    const metrics = new PrometheusMetrics(clock, { version: "1", kubernetesVersion: "1.36.2" });
    const health = new ProxyHealth(clock, 60_000);
    const address = "127.0.0.1" as IpAddress;
    const ports = [await freePort(), await freePort()] as const;
    const stop = await startServers(
      { clock, log: new RecordingLogger(), metrics, health, events: silentEvents },
      {
        nodeName: "node-1",
        metricsBindAddress: { address, port: ports[0] },
        healthzBindAddress: { address, port: ports[1] },
        isBindFailureFatal: true,
      },
    );
    const urls = [`http://127.0.0.1:${ports[0]}`, `http://127.0.0.1:${ports[1]}`] as const;
    assert.equal((await fetch(`${urls[1]}/healthz`)).status, 200);
    assert.equal((await fetch(`${urls[1]}/livez`)).status, 200);
    const scrape = await fetch(`${urls[0]}/metrics`);
    assert.equal(scrape.headers.get("content-encoding"), "gzip");
    assert.match(await scrape.text(), /^kubeproxy_proxy_livez_total\{code="200"\} 1$/m);
    await stop();
    for (const url of urls) await assert.rejects(fetch(`${url}/healthz`));
  });

  it("a port that ends the program is an event on the Node, and one that is retried is not", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = {
      address: "127.0.0.1" as IpAddress,
      port: (other.address() as AddressInfo).port,
    };
    const clock = new FakeClock();
    const events: ClusterEvent[] = [];
    const start = (isBindFailureFatal: boolean): Promise<() => Promise<void>> =>
      startServers(
        {
          ...{ clock, log: new RecordingLogger(), health: new ProxyHealth(clock, 60_000) },
          metrics: new PrometheusMetrics(clock, { version: "1", kubernetesVersion: "1.36.2" }),
          events: { record: (event) => void events.push(event) },
        },
        { nodeName: "node-1", metricsBindAddress: address, isBindFailureFatal },
      );
    const stop = await start(false);
    await stop();
    assert.deepEqual(events, []);
    await assert.rejects(start(true));
    assert.deepEqual(events, [
      {
        type: "Warning",
        reason: "FailedToStartMetricServer",
        action: "StartKubeProxy",
        subject: { kind: "Node", namespace: "", name: "node-1" },
        note: "EADDRINUSE (another process uses this port)",
      },
    ]);
    await new Promise((resolve) => other.close(resolve));
  });
});

import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { describe, it } from "node:test";
import { type ClusterEvent, silentEvents } from "../../../../src/api/event.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { startServers } from "../../../../src/daemon/http/servers.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { prometheusMetrics } from "../../../../src/metrics/prometheus-metrics.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const rest = {
  events: silentEvents,
  shown: { object: () => ({}), flags: new Map<string, string>() },
  setVerbosity: () => {},
};
const options = {
  nodeName: "node-1",
  mode: "ipvs" as const,
  enableProfiling: false,
  featureGates: new Map(),
};

describe("startServers", () => {
  async function freePort(): Promise<number> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }

  it("serves both addresses, including real metrics, and closes them", async () => {
    const clock = new FakeClock();
    const metrics = prometheusMetrics({ version: "1" });
    const health = new ProxyHealth(clock, 60_000);
    const address = "127.0.0.1" as IpAddress;
    const ports = [await freePort(), await freePort()] as const;
    const stop = await startServers(
      { ...rest, clock, log: new RecordingLogger(), metrics, health },
      {
        ...options,
        metricsBindAddress: { address, port: ports[0] },
        healthzBindAddress: { address, port: ports[1] },
        bindAddressHardFail: true,
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

  it("a port in use causes an Event on the Node if it ends the program, but not if it is retried", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = {
      address: "127.0.0.1" as IpAddress,
      port: (other.address() as AddressInfo).port,
    };
    const clock = new FakeClock();
    const events: ClusterEvent[] = [];
    const start = (bindAddressHardFail: boolean): Promise<() => Promise<void>> =>
      startServers(
        {
          ...rest,
          clock,
          log: new RecordingLogger(),
          health: new ProxyHealth(clock, 60_000),
          metrics: prometheusMetrics({ version: "1" }),
          events: { record: (event) => void events.push(event) },
        },
        { ...options, metricsBindAddress: address, bindAddressHardFail },
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
        note: "EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)",
      },
    ]);
    await new Promise((resolve) => other.close(resolve));
  });
});

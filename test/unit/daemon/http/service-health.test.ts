import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { IpAddress, IpFamily } from "../../../../src/base/ip.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { ServiceHealthServers } from "../../../../src/daemon/http/service-health.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { planService } from "../../../support/plan-at-once.ts";
import {
  endpointRecord,
  ip,
  localEndpoint,
  planOptions,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";

/** Returns a port that is currently unused. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

describe("ServiceHealthServers", () => {
  let clock: FakeClock;
  let health: ProxyHealth;
  let servers: ServiceHealthServers;
  let port: number;
  let failures: string[];
  const loopback = new Map<IpFamily, readonly IpAddress[]>([["IPv4", [ip("127.0.0.1")]]]);

  beforeEach(async () => {
    clock = new FakeClock();
    health = new ProxyHealth(clock, 60_000);
    failures = [];
    servers = new ServiceHealthServers({
      clock,
      log: silentLogger,
      health,
      onFailure: ({ service, port }, reason) => failures.push(`${service} ${port} ${reason}`),
    });
    port = await freePort();
  });

  afterEach(() => servers.stop());

  type Overrides = Parameters<typeof serviceRecord>[0];

  async function serve(localCount: number, overrides: Overrides = {}): Promise<void> {
    note(localCount, overrides);
    await servers.serve(loopback);
  }

  /** Records a load balancer with policy Local and this number of local endpoints. */
  function note(localCount: number, overrides: Overrides): void {
    const service = serviceRecord({
      type: "LoadBalancer",
      isExternalPolicyLocal: true,
      healthCheckNodePort: port,
      ...overrides,
    });
    const local = Array.from({ length: localCount }, (_, index) =>
      localEndpoint(`10.244.1.${index + 1}`),
    );
    const slice = sliceRecord([...local, endpointRecord("10.244.2.9")]);
    for (const plan of planService(service.name, service, [slice], planOptions()))
      servers.note(plan);
  }

  function ask(path = "/"): Promise<Response> {
    return fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: "close" } });
  }

  it("return 200 with the count and kube-proxy's body and headers, for every path", async () => {
    await serve(2);
    const response = await ask("/any/path");
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-load-balancing-endpoint-weight"), "2");
    assert.equal(response.headers.get("content-type"), "application/json");
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.equal(
      await response.text(),
      '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "a"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}\n',
    );
  });

  it("return 503 without a local endpoint, and follow changes", async () => {
    await serve(0);
    assert.equal((await ask()).status, 503);
    await serve(1);
    assert.equal((await ask()).status, 200);
  });

  it("return 503 while the proxy is unhealthy", async () => {
    await serve(1);
    health.updated("IPv4");
    health.queued("IPv4");
    await clock.advance(60_000);
    const response = await ask();
    assert.equal(response.status, 503);
    assert.match(await response.text(), /"serviceProxyHealthy": false/);
  });

  it("answer a thousand simultaneous requests", async () => {
    await serve(1);
    const sockets = Array.from({ length: 1_000 }, () => connect(port, "127.0.0.1"));
    const answers = sockets.map(async (socket) => {
      const chunks: Buffer[] = [];
      for await (const chunk of socket) chunks.push(chunk as Buffer);
      return /^HTTP\/1\.1 (\d+)/.exec(Buffer.concat(chunks).toString())?.[1] ?? "none";
    });
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    for (const socket of sockets)
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const statuses = (await Promise.allSettled(answers)).map((answer) =>
      answer.status === "fulfilled" ? answer.value : "reset",
    );
    assert.equal(statuses.filter((status) => status === "200").length, 1_000);
  });

  it("close the port of a Service that no longer needs it", async () => {
    await serve(1);
    await serve(1, { healthCheckNodePort: 0 });
    await assert.rejects(ask());
  });

  const young = { name: "default/a", createdAtSeconds: 2 } as const;
  const old = { name: "default/b", createdAtSeconds: 1 } as const;
  const given = { healthCheckNodePort: 0 };

  it("give a port that two Services request at the same time to the older one, in any order", async () => {
    for (const order of [
      [young, old],
      [old, young],
    ]) {
      for (const overrides of order) note(1, overrides);
      await servers.serve(loopback);
      assert.match(await (await ask()).text(), /"name": "b"/);
      for (const overrides of order) note(1, { ...overrides, ...given });
      await servers.serve(loopback);
    }
  });

  it("leave a port to the Service that has it when an older Service requests it, until the owner gives it up", async () => {
    await serve(1, young);
    await serve(1, old);
    assert.match(await (await ask()).text(), /"name": "a"/);
    await serve(0, young);
    assert.match(await (await ask()).text(), /"name": "a"/);
    const virtualServer = `health-check node port ${port} (IPv4)`;
    assert.deepEqual(servers.claims.lost(), [
      { virtualServer, winner: "default/a:http", loser: "default/b:http", reason: "held-before" },
    ]);
    await serve(1, { ...young, ...given });
    assert.match(await (await ask()).text(), /"name": "b"/);
    assert.deepEqual(servers.claims.lost(), []);
    await serve(1, { ...old, ...given });
    await assert.rejects(ask());
  });

  it("leave a port to the Service that had it before a restart", async () => {
    await serve(1, young);
    await serve(1, old);
    const held = servers.claims.contestedHolders();
    await servers.stop();
    servers = new ServiceHealthServers({ clock, log: silentLogger, health, held });
    for (const overrides of [young, old]) note(1, overrides);
    await servers.serve(loopback);
    assert.match(await (await ask()).text(), /"name": "a"/);
  });

  it("move to another port", async () => {
    await serve(1);
    const before = port;
    port = await freePort();
    await serve(1);
    assert.equal((await ask()).status, 200);
    await assert.rejects(fetch(`http://127.0.0.1:${before}/`));
  });

  it("report a port in use, and retry until it is free", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(port, "127.0.0.1", resolve));
    await serve(1);
    const failure = `default/a ${port} EADDRINUSE (another process is using this port; to find it, run on the node: ss -ltnp)`;
    assert.deepEqual(failures, [failure]);
    await new Promise((resolve) => other.close(resolve));
    await clock.advance(5_000);
    // The listener opens asynchronously after the retry.
    for (let attempt = 0; attempt < 100; attempt++) {
      const isOpen = await ask().then(
        () => true,
        () => false,
      );
      if (isOpen) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.fail("the port was not opened");
  });
});

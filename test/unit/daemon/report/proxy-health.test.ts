import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { healthResponder } from "../../../../src/daemon/http/health-server.ts";
import type { HttpAnswer } from "../../../../src/daemon/http/http-listener.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { httpRequest } from "../../../support/http-request.ts";

function setUp(): { clock: FakeClock; health: ProxyHealth; counted: string[] } {
  const clock = new FakeClock();
  return { clock, health: new ProxyHealth(clock, 60_000), counted: [] };
}

/** The status codes of the paths that load balancers and probes request. */
function statuses(health: ProxyHealth, clock: FakeClock): Readonly<Record<string, number>> {
  const counter = { inc() {} };
  const respond = healthResponder(health, clock, { healthz: counter, livez: counter });
  const paths = ["/healthz", "/livez"];
  return Object.fromEntries(
    paths.map((path) => {
      const answer = respond({ path } as Parameters<typeof respond>[0]) as HttpAnswer;
      return [path, answer.status];
    }),
  );
}

describe("ProxyHealth", () => {
  it("is healthy before any loop has started, even with requests", async () => {
    const { clock, health } = setUp();
    health.queued("IPv4");
    await clock.advance(1_000_000);
    assert.equal(health.report().isHealthy, true);
  });

  it("is healthy without requests, however old the last sync is", async () => {
    const { clock, health } = setUp();
    health.updated("IPv4");
    await clock.advance(1_000_000);
    assert.equal(health.report().isHealthy, true);
  });

  it("fails /healthz, not /livez, while the program stops", () => {
    const { clock, health } = setUp();
    health.updated("IPv4");
    assert.deepEqual(statuses(health, clock), { "/healthz": 200, "/livez": 200 });
    health.stopping();
    assert.deepEqual(statuses(health, clock), { "/healthz": 503, "/livez": 200 });
  });

  it("fails /healthz, not /livez, before the first sync, but only if configured", () => {
    const { clock, health } = setUp();
    assert.deepEqual(statuses(health, clock), { "/healthz": 200, "/livez": 200 });
    health.requireFirstSync();
    assert.deepEqual(statuses(health, clock), { "/healthz": 503, "/livez": 200 });
    health.updated("IPv4");
    assert.deepEqual(statuses(health, clock), { "/healthz": 200, "/livez": 200 });
  });

  it("applies a new timeout immediately", async () => {
    const { clock, health } = setUp();
    health.updated("IPv4");
    health.queued("IPv4");
    await clock.advance(20_000);
    health.setTimeoutMs(20_001);
    assert.equal(health.report().isHealthy, true);
    health.setTimeoutMs(20_000);
    assert.equal(health.report().isHealthy, false);
  });

  it("is unhealthy when the oldest request exceeds the timeout, and healthy again after a sync", async () => {
    const { clock, health } = setUp();
    health.updated("IPv4");
    health.queued("IPv4");
    await clock.advance(50_000);
    health.queued("IPv4");
    await clock.advance(9_999);
    assert.equal(health.report().isHealthy, true);
    await clock.advance(1);
    assert.equal(health.report().isHealthy, false);
    health.updated("IPv4");
    assert.equal(health.report().isHealthy, true);
  });

  it("is unhealthy if one family is", async () => {
    const { clock, health } = setUp();
    for (const family of ["IPv4", "IPv6"] as const) {
      health.updated(family);
      health.queued(family);
    }
    health.updated("IPv4");
    await clock.advance(60_000);
    assert.deepEqual(
      health.report().families.map(({ family, isHealthy }) => [family, isHealthy]),
      [
        ["IPv4", true],
        ["IPv6", false],
      ],
    );
    assert.equal(health.report().isHealthy, false);
  });
});

describe("the health server returns", () => {
  const start = "2026-01-01T00:00:00.000Z";
  const late = "2026-01-01T00:01:00.000Z";

  async function ask(
    path: string,
    prepare: (health: ProxyHealth) => void,
  ): Promise<{ answer: HttpAnswer; counted: readonly string[] }> {
    const { clock, health, counted } = setUp();
    const metrics = {
      healthz: { inc: ({ code }: { code: number }) => counted.push(`healthz ${code}`) },
      livez: { inc: ({ code }: { code: number }) => counted.push(`livez ${code}`) },
    };
    prepare(health);
    await clock.advance(60_000);
    const respond = healthResponder(health, clock, metrics);
    return { answer: await respond(httpRequest(path)), counted };
  }

  const idle = (health: ProxyHealth): void => health.updated("IPv4");
  const stuck = (health: ProxyHealth): void => {
    health.updated("IPv4");
    health.queued("IPv4");
  };
  const leaving = (health: ProxyHealth): void => {
    health.updated("IPv4");
    health.setNodeEligible(false);
  };
  const well = { IPv4: { lastUpdated: start, healthy: true } };

  const cases = [
    {
      name: "/healthz well",
      path: "/healthz",
      prepare: idle,
      status: 200,
      body: {
        lastUpdated: late,
        currentTime: late,
        nodeEligible: true,
        healthy: true,
        status: well,
      },
    },
    {
      name: "/healthz while a sync is overdue",
      path: "/healthz",
      prepare: stuck,
      status: 503,
      body: {
        lastUpdated: start,
        currentTime: late,
        nodeEligible: true,
        healthy: false,
        status: { IPv4: { lastUpdated: start, healthy: false } },
      },
    },
    {
      name: "/healthz while the node leaves, though the proxy is well",
      path: "/healthz",
      prepare: leaving,
      status: 503,
      body: {
        lastUpdated: start,
        currentTime: late,
        nodeEligible: false,
        healthy: true,
        status: well,
      },
    },
    {
      name: "/livez while the node leaves",
      path: "/livez",
      prepare: leaving,
      status: 200,
      body: { lastUpdated: late, currentTime: late, healthy: true, status: well },
    },
    {
      name: "/livez before anything began",
      path: "/livez",
      prepare: () => {},
      status: 200,
      body: { lastUpdated: late, currentTime: late, healthy: true },
    },
  ];
  for (const { name, path, prepare, status, body } of cases) {
    it(name, async () => {
      const { answer, counted } = await ask(path, prepare);
      assert.equal(answer.status, status);
      assert.equal(answer.body, JSON.stringify(body));
      assert.deepEqual(counted, [`${path.slice(1)} ${status}`]);
      assert.deepEqual(answer.headers, {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
      });
    });
  }

  const readiness: readonly (readonly [
    name: string,
    prepare: (health: ProxyHealth) => void,
    reason?: string,
  ])[] = [
    [
      "before anything is listed",
      (health) => health.started("IPv4"),
      "The first sync is waiting for the Node object, Services, EndpointSlices",
    ],
    [
      "while EndpointSlices are missing",
      (health) => {
        health.started("IPv4");
        health.listed("services");
        health.listed("nodes");
      },
      "The first sync is waiting for EndpointSlices",
    ],
    [
      "while no sync succeeds",
      (health) => {
        for (const kind of ["services", "nodes", "endpointslices"] as const) health.listed(kind);
        health.started("IPv4");
        health.queued("IPv4");
      },
      "The first sync has not succeeded yet",
    ],
    ["after the first sync", idle],
    ["while the node is being deleted", leaving],
    [
      "while syncs are overdue",
      stuck,
      "Syncs are overdue (IPv4): none succeeded within 60 s of being queued",
    ],
  ];
  for (const [name, prepare, reason] of readiness) {
    it(`/readyz ${name}, without counting it`, async () => {
      const { answer, counted } = await ask("/readyz", prepare);
      assert.equal(answer.status, reason === undefined ? 200 : 503);
      const body = reason === undefined ? { ready: true } : { ready: false, reason };
      assert.deepEqual(JSON.parse(String(answer.body)), body);
      assert.deepEqual(counted, []);
    });
  }

  it("404 to anything else, without counting it", async () => {
    const { answer, counted } = await ask("/metrics", idle);
    assert.equal(answer.status, 404);
    assert.deepEqual(counted, []);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type {
  DrainRow,
  EndpointRow,
  ServiceRow,
  ServicesQuery,
} from "../../../../src/answer/rows.ts";
import { errno } from "../../../../src/base/errno.ts";
import { drainRows } from "../../../../src/daemon/operator/drain-rows.ts";
import { readDriftedAgain } from "../../../../src/daemon/operator/drifted-servers.ts";
import { serviceRows } from "../../../../src/daemon/operator/service-rows.ts";
import type { Operation } from "../../../support/fake-kernel/operations.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node,
  service,
  servicePort,
} from "../../../support/objects.ts";
import { ip } from "../../../support/records.ts";

const all: ServicesQuery = { hasEndpoints: true, hasConnections: true };

async function withNode(
  objects: readonly ApiObject[],
  body: (onNode: FakeNode) => Promise<void>,
  flags: Readonly<Record<string, string>> = {},
): Promise<void> {
  const onNode = new FakeNode(flags);
  apply(onNode, node(), ...objects);
  await onNode.start();
  try {
    await onNode.settle();
    await body(onNode);
  } finally {
    await onNode.stop();
  }
}

function apply(onNode: FakeNode, ...objects: readonly ApiObject[]): void {
  onNode.source.apply(...(objects as readonly unknown[] as readonly NamedObject[]));
}

async function listOf<T>(rows: AsyncIterable<T>): Promise<readonly T[]> {
  const list: T[] = [];
  for await (const row of rows) list.push(row);
  return list;
}

async function rowsOf(onNode: FakeNode, query = all): Promise<readonly ServiceRow[]> {
  return await listOf(serviceRows(onNode.view, query));
}

async function drainsOf(onNode: FakeNode): Promise<readonly DrainRow[]> {
  return await listOf(drainRows(onNode.view));
}

/** `address reason` for each endpoint. Endpoints that accept connections have no reason. */
function reasons(row: ServiceRow | undefined): readonly string[] {
  return (row?.endpoints ?? []).map(({ address, reason }) => `${address} ${reason ?? "-"}`);
}

function endpointOf(row: ServiceRow | undefined, address: string): EndpointRow | undefined {
  return row?.endpoints?.find((one) => one.address === address);
}

describe("rows of Services", () => {
  it("exist for each address, port and protocol, sorted by namespace and name", async () => {
    const ports = [
      servicePort({ nodePort: 30_080 }),
      servicePort({ name: "dns", protocol: "UDP" }),
    ];
    await withNode(
      [
        service({ name: "web", type: "NodePort", ports }),
        service({ name: "api", namespace: "shop", clusterIps: ["10.96.0.11"] }),
      ],
      async (onNode) => {
        const rows = await rowsOf(onNode, { hasEndpoints: false, hasConnections: false });
        const texts = rows.map(
          (row) =>
            `${row.namespace}/${row.name}:${row.portName} ${row.type} ${row.frontend} ${row.protocol} ${row.address}:${row.port} ${row.scheduler}`,
        );
        assert.deepEqual(texts, [
          "default/web:http NodePort cluster-ip TCP 10.96.0.10:80 rr",
          "default/web:http NodePort node-port TCP 172.16.5.11:30080 rr",
          "default/web:http NodePort node-port TCP 192.168.10.11:30080 rr",
          "default/web:dns NodePort cluster-ip UDP 10.96.0.10:80 rr",
          "shop/api:http ClusterIP cluster-ip TCP 10.96.0.11:80 rr",
        ]);
        assert.ok(rows.every(({ endpoints }) => endpoints === undefined));
      },
    );
  });

  it("can be restricted to one namespace or one Service", async () => {
    const objects = [service(), service({ namespace: "shop", clusterIps: ["10.96.0.11"] })];
    await withNode(objects, async (onNode) => {
      const names = async (query: Partial<ServicesQuery>): Promise<readonly string[]> =>
        (await rowsOf(onNode, { ...all, ...query })).map((row) => `${row.namespace}/${row.name}`);
      assert.deepEqual(await names({ namespace: "shop" }), ["shop/web"]);
      assert.deepEqual(await names({ name: "web" }), ["default/web", "shop/web"]);
      assert.deepEqual(await names({ namespace: "default", name: "web" }), ["default/web"]);
      assert.deepEqual(await names({ namespace: "default", name: "none" }), []);
    });
  });

  for (const mode of ["ipvs", "iptables"]) {
    it(`can be restricted to an address and port in ${mode} mode`, async () => {
      const ports = [
        servicePort({ nodePort: 30_080 }),
        servicePort({ name: "dns", protocol: "UDP" }),
      ];
      const objects = [
        service({ type: "NodePort", ports }),
        service({ name: "other", clusterIps: ["10.96.0.11"] }),
      ];
      const found = async (
        onNode: FakeNode,
        protocol: "TCP" | "UDP",
        address: string,
        port: number,
      ): Promise<readonly string[]> => {
        const query = { ...all, destination: { protocol, address: ip(address), port } };
        const rows = await listOf(serviceRows(onNode.modeView, query));
        return rows.map((row) => `${row.name}:${row.portName} ${row.frontend}`);
      };
      const body = async (onNode: FakeNode): Promise<void> => {
        assert.deepEqual(await found(onNode, "TCP", "10.96.0.11", 80), ["other:http cluster-ip"]);
        assert.deepEqual(await found(onNode, "UDP", "10.96.0.10", 80), ["web:dns cluster-ip"]);
        assert.deepEqual(await found(onNode, "TCP", "192.168.10.11", 30_080), [
          "web:http node-port",
        ]);
        assert.deepEqual(await found(onNode, "UDP", "10.96.0.11", 80), []);
        assert.deepEqual(await found(onNode, "TCP", "10.96.0.10", 81), []);
        assert.deepEqual(await found(onNode, "TCP", "fd00::1", 30_080), []);
      };
      await withNode(objects, body, { "proxy-mode": mode });
    });
  }

  it("are searched for an address without blocking the event loop", async () => {
    const objects = Array.from({ length: 300 }, (_, at) => service({ name: `web-${at}` }));
    await withNode(objects, async ({ view }) => {
      let nowMs = 0;
      let [sinceTurn, most] = [0, 0];
      const { tracker, desired } = view.plan;
      const counting = new Proxy(tracker, {
        get(target, name) {
          if (name === "service") sinceTurn += 1;
          most = Math.max(most, sinceTurn);
          const value = Reflect.get(target, name);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
      const plan = { ...view.plan, tracker: counting, desired };
      const clock = {
        ...view.clock,
        monotonicMs: () => {
          nowMs += 10;
          return nowMs;
        },
      };
      const turn = (): void => {
        sinceTurn = 0;
        if (most >= 0) setImmediate(turn).unref();
      };
      turn();
      const destination = { protocol: "TCP", address: ip("192.0.2.1"), port: 80 } as const;
      const rows = serviceRows({ ...view, plan, clock }, { ...all, destination });
      assert.deepEqual(await listOf(rows), []);
      assert.ok(most > 0 && most <= 64, `${most} Services in one turn`);
      most = -1;
    });
  });

  it("contain each endpoint with its node, its conditions, and the kernel's connection counts", async () => {
    const endpoints = [endpoint("10.244.1.10", { nodeName: "node-1", zone: "z1" })];
    await withNode([service(), endpointSlice({ endpoints })], async (onNode) => {
      onNode.connect(7);
      const [row] = await rowsOf(onNode);
      assert.deepEqual(row?.endpoints, [
        {
          address: "10.244.1.10",
          port: 8080,
          node: "node-1",
          ready: true,
          serving: true,
          terminating: false,
          local: true,
          weight: 1,
          activeConnections: 7,
          inactiveConnections: 0,
        },
      ]);
      assert.deepEqual(row?.realServers, { planned: 1, programmed: 1, draining: 0 });
    });
  });

  it("give the reason why planning did not choose an endpoint", async () => {
    const conditions = { ready: false, serving: true, terminating: true };
    const endpoints = [
      endpoint("10.244.1.10", { nodeName: "node-1" }),
      endpoint("10.244.1.11", { conditions: { ready: false, serving: false, terminating: false } }),
      endpoint("10.244.1.12", { conditions }),
      endpoint("10.244.2.13", { nodeName: "node-2" }),
    ];
    const spec = { internalTrafficPolicy: "Local" };
    await withNode([service({ spec }), endpointSlice({ endpoints })], async (onNode) => {
      const [row] = await rowsOf(onNode);
      assert.equal(row?.trafficPolicy, "Local");
      assert.deepEqual(reasons(row), [
        "10.244.1.10 -",
        "10.244.1.11 not-ready",
        "10.244.1.12 terminating",
        "10.244.2.13 not-local",
      ]);
    });
  });

  it("report that topology hints choose other endpoints", async () => {
    const endpoints = ["z1", "z2"].map((zone, index) =>
      endpoint(`10.244.1.1${index}`, { hints: { forZones: [{ name: zone }] } }),
    );
    await withNode([service(), endpointSlice({ endpoints })], async (onNode) => {
      const [row] = await rowsOf(onNode);
      assert.deepEqual(reasons(row), ["10.244.1.10 -", "10.244.1.11 hinted-elsewhere"]);
      assert.deepEqual(endpointOf(row, "10.244.1.11")?.zoneHints, ["z2"]);
    });
  });

  it("report endpoints that a topology preference excludes", async () => {
    const label = "example.com/rack";
    const annotations = {
      "kube-ipvs.io/prefer-topology": label,
      "kube-ipvs.io/port-range": "7000-7100",
    };
    const endpoints = ["node-1", "node-2"].map((nodeName, index) =>
      endpoint(`10.244.1.1${index}`, { nodeName }),
    );
    const flags = { "kube-ipvs-port-range-marks": "0x3fff0000" };
    const preferring = service({ metadata: { annotations } });
    const objects = [preferring, endpointSlice({ endpoints })];
    await withNode(
      objects,
      async (onNode) => {
        const rows = async (labels: Record<string, string>) => {
          const named = node({ metadata: { labels } }) as unknown as NamedObject;
          apply(onNode, named as never);
          onNode.source.reportNodes(named);
          await onNode.wait(3_000);
          return await rowsOf(onNode);
        };
        for (const row of await rows({ [label]: "a" })) {
          assert.deepEqual(reasons(row), ["10.244.1.10 -", "10.244.1.11 not-preferred"]);
          assert.equal(row.topologyPreference, "applied");
        }
        for (const row of await rows({})) {
          assert.deepEqual(reasons(row), ["10.244.1.10 -", "10.244.1.11 -"]);
          assert.equal(row.topologyPreference, "no-label");
        }
      },
      flags,
    );
  });

  it("name rejected real servers by their errno", async () => {
    const onNode = new FakeNode({});
    const isRefused = ({ action, subject }: Operation): boolean =>
      action === "real-server-create" && subject.includes("10.244.1.11");
    onNode.kernel.operations.failWhere(isRefused, errno.EINVAL, 100);
    apply(onNode, node(), service(), endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.11"] }));
    await onNode.start();
    await onNode.wait(3_000);
    const [row] = await rowsOf(onNode);
    assert.deepEqual(reasons(row), ["10.244.1.10 -", "10.244.1.11 EINVAL"]);
    assert.deepEqual(row?.realServers, { planned: 2, programmed: 1, draining: 0 });
    await onNode.stop();
  });

  it("report that a third party has the virtual server", async () => {
    const onNode = new FakeNode({});
    const server = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
    onNode.kernel.ipvs.interfere({
      kind: "virtual-server-create",
      after: {
        ...server,
        scheduler: "wlc",
        persistenceTimeoutSeconds: 0,
        persistencePrefixLength: 32,
        flags: 0,
      },
    });
    onNode.kernel.ipvs.interfere({
      kind: "real-server-create",
      virtualServer: server,
      after: { address: ip("172.30.0.9"), port: 80, weight: 5, forwardingMethod: 0 },
    });
    apply(onNode, node(), service(), endpointSlice());
    await onNode.start();
    await onNode.settle();
    const [row] = await rowsOf(onNode);
    assert.equal(row?.reason, "foreign-virtual-server");
    assert.deepEqual(reasons(row), ["10.244.1.10 foreign-virtual-server"]);
    await onNode.stop();
  });

  it("name the Service that owns the address, and the reason", async () => {
    const spec = { externalIPs: ["203.0.113.7"] };
    const objects = [
      service({ spec }),
      service({
        name: "younger",
        clusterIps: ["10.96.0.11"],
        spec,
        metadata: { creationTimestamp: "2026-02-01T00:00:00Z" },
      }),
    ];
    await withNode(objects, async (onNode) => {
      const rows = await rowsOf(onNode, { ...all, name: "younger" });
      assert.deepEqual(
        rows.map(({ address, reason }) => `${address} ${reason}`),
        ["10.96.0.11 undefined", "203.0.113.7 claimed-by-another-service"],
      );
      assert.deepEqual(
        rows.map(({ claimedBy }) => claimedBy),
        [undefined, { namespace: "default", name: "web", claim: "older" }],
      );
    });
  });

  it("detect immediately that a real server in the cache was removed from the kernel", async () => {
    await withNode([service(), endpointSlice()], async (onNode) => {
      const virtualServer = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
      const realServer = { address: ip("10.244.1.10"), port: 8080 };
      onNode.kernel.ipvs.interfere({
        kind: "real-server-remove",
        virtualServer,
        before: realServer,
      });
      const [row] = await rowsOf(onNode);
      assert.deepEqual(reasons(row), ["10.244.1.10 drifted"]);
      assert.equal(endpointOf(row, "10.244.1.10")?.weight, undefined);
      const { unrepaired } = onNode.modeView.history;
      assert.deepEqual([...unrepaired.keys()], ["TCP 10.96.0.10:80"]);
      onNode.kernel.ipvs.interfere({
        kind: "real-server-create",
        virtualServer,
        after: { ...realServer, weight: 1, forwardingMethod: 0 },
      });
      await readDriftedAgain(onNode.view);
      assert.equal(unrepaired.size, 0);
    });
  });

  it("remember drift of a virtual server that another Service also requests", async () => {
    const spec = { externalIPs: ["203.0.113.7"] };
    const younger = service({
      name: "younger",
      clusterIps: ["10.96.0.11"],
      spec,
      metadata: { creationTimestamp: "2026-02-01T00:00:00Z" },
    });
    await withNode([service({ spec }), endpointSlice(), younger], async (onNode) => {
      const virtualServer = { protocol: "TCP", address: ip("203.0.113.7"), port: 80 } as const;
      const before = { address: ip("10.244.1.10"), port: 8080 };
      onNode.kernel.ipvs.interfere({ kind: "real-server-remove", virtualServer, before });
      await rowsOf(onNode);
      await readDriftedAgain(onNode.view);
      const { unrepaired } = onNode.modeView.history;
      assert.deepEqual([...unrepaired.keys()], ["TCP 203.0.113.7:80"]);
    });
  });

  it("name annotations that have no effect", async () => {
    const annotations = { "kube-ipvs.io/scheduler": "nonsense" };
    await withNode([service({ metadata: { annotations } }), endpointSlice()], async (onNode) => {
      const [row] = await rowsOf(onNode);
      assert.deepEqual(row?.ignoredAnnotations, ["kube-ipvs.io/scheduler: scheduler-not-allowed"]);
      assert.equal(row?.reason, undefined);
    });
  });
});

describe("rows of drains", () => {
  it("are sorted by age, with deadline and connections", async () => {
    const endpoints = ["10.244.1.10", "10.244.1.11", "10.244.1.12"];
    await withNode([service(), endpointSlice({ endpoints })], async (onNode) => {
      onNode.connect(3);
      apply(onNode, endpointSlice({ endpoints: endpoints.slice(0, 2) }));
      await onNode.settle();
      await onNode.wait(60_000);
      apply(onNode, endpointSlice({ endpoints: endpoints.slice(0, 1) }));
      await onNode.settle();
      const drains = await drainsOf(onNode);
      assert.deepEqual(
        drains.map(({ realServer }) => realServer.address),
        ["10.244.1.12", "10.244.1.11"],
      );
      const [oldest] = drains;
      assert.ok(oldest !== undefined && oldest.ageSeconds >= 60, `${oldest?.ageSeconds}`);
      assert.equal(Math.round(oldest.ageSeconds + (oldest.deadlineInSeconds ?? 0)), 900);
      const { namespace, name, protocol, address, port, activeConnections } = oldest;
      assert.deepEqual(
        [namespace, name, protocol, address, port, activeConnections],
        ["default", "web", "TCP", "10.96.0.10", 80, 3],
      );
      const [row] = await rowsOf(onNode);
      assert.equal(row?.realServers.draining, 2);
      const gone = endpointOf(row, "10.244.1.12");
      assert.deepEqual([gone?.weight, gone?.reason], [0, "endpoint-removed"]);
      assert.ok((gone?.drain?.ageSeconds ?? 0) >= 60);
    });
  });
});
